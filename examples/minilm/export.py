"""Exports all-MiniLM-L6-v2 in stages.

    python examples/minilm/export.py --repository models --stages 2
"""

import argparse
import sys
from pathlib import Path

# For `python examples/minilm/export.py` from anywhere, installed or not.
sys.path[:0] = [str(Path(__file__).parent),
                str(Path(__file__).resolve().parents[2] / "python")]

import torch  # noqa: E402
from model import (  # noqa: E402
    MAX_TOKENS,
    WIDTH,
    make_stages,
    read_sentences,
    tokenize,
)

from pipestage import MeanSquaredError, Size, export_pipeline  # noqa: E402


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", default="models")
    parser.add_argument("--name", help="default: minilm-<stages>")
    parser.add_argument("--version", default="1")
    parser.add_argument("--stages", type=int, default=2)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    tokens = tokenize(read_sentences()[:4])
    inputs = {name: torch.from_numpy(array) for name, array in tokens.items()}
    print(f"exporting all-MiniLM-L6-v2 in {arguments.stages} stages", flush=True)
    print(export_pipeline(
        make_stages(arguments.stages), inputs, arguments.repository,
        arguments.name or f"minilm-{arguments.stages}", arguments.version,
        keyword_inputs={s: ["attention_mask"] for s in range(arguments.stages)},
        dynamic_axes={name: {1: "seq"} for name in inputs},
        sizes={"seq": Size(min=2, max=MAX_TOKENS)},
        targets={"target": torch.zeros(4, WIDTH)}, output_names=["embedding"],
        loss=MeanSquaredError("embedding", "target"),
        description="sentence-transformers/all-MiniLM-L6-v2: mean of tokens, "
                    "normalised"))


if __name__ == "__main__":
    main()
