"""Cuts a text into rows of bytes: tokens.npy and targets.npy, int64 [rows, seq].

    python examples/byte_lm/prepare_data.py --rows 64 --out data [--text FILE]
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import text  # noqa: E402


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, default=text.HELD_OUT)
    parser.add_argument("--rows", type=int, help="default: the whole text")
    parser.add_argument("--seq", type=int, default=128)
    parser.add_argument("--out", type=Path, default=Path("."))
    arguments = parser.parse_args()

    tokens, targets = text.rows_of(arguments.text.read_bytes(), arguments.rows,
                                   arguments.seq)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, array in (("tokens", tokens), ("targets", targets)):
        np.save(arguments.out / f"{name}.npy", np.ascontiguousarray(array))
    print(f"{arguments.text}: {tokens.shape[0]} rows of {tokens.shape[1]} bytes "
          f"in {arguments.out}/tokens.npy and targets.npy")


if __name__ == "__main__":
    main()
