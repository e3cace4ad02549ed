"""A small byte-level transformer language model, as a list of stages."""

import dataclasses

import torch
from torch import nn


@dataclasses.dataclass(frozen=True)
class Config:
    """Sizes of the model. A token is a byte."""

    width: int = 64
    heads: int = 4
    layers: int = 4
    context: int = 128
    vocabulary: int = 256


class Block(nn.Module):
    """Causal attention and a feed-forward layer, each normalised before."""

    def __init__(self, config: Config):
        super().__init__()
        self.heads = config.heads
        self.norm1 = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.proj = nn.Linear(config.width, config.width)
        self.norm2 = nn.LayerNorm(config.width)
        self.up = nn.Linear(config.width, 4 * config.width)
        self.down = nn.Linear(4 * config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, seq, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(rows, seq, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(rows, seq, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Embedding(nn.Module):
    """Bytes and their positions, as vectors."""

    def __init__(self, config: Config):
        super().__init__()
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.context, config.width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.token(tokens) + self.position(positions)


class Head(nn.Module):
    """Scores of the next byte."""

    def __init__(self, config: Config):
        super().__init__()
        self.norm = nn.LayerNorm(config.width)
        self.logits = nn.Linear(config.width, config.vocabulary)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.logits(self.norm(x))


def make_stages(config: Config, num_stages: int) -> list[nn.Sequential]:
    """The model in `num_stages` stages with equally many blocks, as far as they go."""
    if not 1 <= num_stages <= config.layers:
        raise ValueError(
            f"{config.layers} blocks make 1 to {config.layers} stages, not "
            f"{num_stages}")
    blocks = [Block(config) for _ in range(config.layers)]
    embedding, head = Embedding(config), Head(config)
    stages = []
    for stage in range(num_stages):
        first = stage * config.layers // num_stages
        after = (stage + 1) * config.layers // num_stages
        parts: list[nn.Module] = list(blocks[first:after])
        if stage == 0:
            parts.insert(0, embedding)
        if stage == num_stages - 1:
            parts.append(head)
        stages.append(nn.Sequential(*parts))
    return stages
