"""Trains a byte-level language model for some seconds and exports it in stages.

    python examples/byte_lm/export.py --repository models --stages 2 --train-seconds 20
"""

import argparse
import math
import sys
import time
from pathlib import Path

import torch
from torch import nn

# For `python examples/byte_lm/export.py` from anywhere, installed or not.
sys.path[:0] = [str(Path(__file__).parent),
                str(Path(__file__).resolve().parents[2] / "python")]

import text  # noqa: E402
from model import Config, make_stages  # noqa: E402

from pipestage import CrossEntropy, Size, export_pipeline  # noqa: E402


def held_out_bits(model: nn.Module, config: Config, rows: int = 32) -> float:
    """Bits per byte on a text the model has not seen."""
    tokens, targets = (torch.from_numpy(a.copy()) for a in text.rows_of(
        text.HELD_OUT.read_bytes(), rows, config.context))
    model.eval()
    with torch.no_grad():
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1),
                                           targets.flatten())
    model.train()
    return loss.item() / math.log(2)


def train(model: nn.Module, config: Config, seconds: float, batch: int = 8) -> int:
    """Trains for about `seconds`; returns the number of steps."""
    data = torch.from_numpy(text.training_bytes().copy()).long()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    offsets = torch.arange(config.context + 1)
    start = shown = time.monotonic()
    steps = 0
    while (elapsed := time.monotonic() - start) < seconds:
        # Down to a tenth of the rate by the end.
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (0.1 + 0.9 * (1 - elapsed / seconds))
        first = torch.randint(len(data) - config.context - 1, (batch, 1))
        pieces = data[first + offsets]
        loss = nn.functional.cross_entropy(
            model(pieces[:, :-1]).flatten(0, 1), pieces[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        steps += 1
        if time.monotonic() - shown > 2:
            shown = time.monotonic()
            print(f"  {elapsed:5.1f} s  step {steps:5d}  "
                  f"{loss.item() / math.log(2):.2f} bits per byte", flush=True)
    return steps


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", default="models")
    parser.add_argument("--name", default="byte-lm")
    parser.add_argument("--version", default="1")
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--train-seconds", type=float, default=20)
    parser.add_argument("--threads", type=int, default=1,
                        help="more are slower on a machine that is busy")
    arguments = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(arguments.threads)
    config = Config()
    stages = make_stages(config, arguments.stages)
    model = nn.Sequential(*stages)
    count = sum(p.numel() for p in model.parameters())
    print(f"{count:,} parameters, {arguments.stages} stages; training for "
          f"{arguments.train_seconds:g} s", flush=True)
    if arguments.train_seconds > 0:
        steps = train(model, config, arguments.train_seconds)
        print(f"  {steps} steps; {held_out_bits(model, config):.2f} bits per byte "
              f"on {text.HELD_OUT}", flush=True)
    model.eval()

    print("exporting", flush=True)
    example = torch.randint(config.vocabulary, (2, 32))
    print(export_pipeline(
        stages, {"tokens": example}, arguments.repository, arguments.name,
        arguments.version, targets={"targets": example}, output_names=["logits"],
        dynamic_axes={"tokens": {1: "seq"}, "targets": {1: "seq"}},
        sizes={"seq": Size(min=2, max=config.context)},
        loss=CrossEntropy("logits", "targets"), reference=model,
        num_microbatches=4, schedule="1F1B",
        description="Byte-level transformer trained on free software licenses"))


if __name__ == "__main__":
    main()
