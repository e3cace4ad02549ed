"""Texts that every Debian has, as rows of bytes."""

from pathlib import Path

import numpy as np

_LICENSES = Path("/usr/share/common-licenses")
# What the model learns from, and a text by other people that it has not seen.
TRAINING = ("GPL-1", "GPL-2", "GPL-3", "LGPL-2", "LGPL-2.1", "LGPL-3", "GFDL-1.2",
            "GFDL-1.3", "MPL-1.1", "Artistic")
HELD_OUT = _LICENSES / "Apache-2.0"


def training_bytes() -> np.ndarray:
    """All training texts there are, one after the other; uint8."""
    found = [p for p in (_LICENSES / n for n in TRAINING) if p.is_file()]
    if not found:
        raise FileNotFoundError(f"no texts in {_LICENSES}")
    return np.frombuffer(b"".join(p.read_bytes() for p in found), np.uint8)


def rows_of(text: bytes, rows: int | None, seq: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and the bytes that follow them, both int64 [rows, seq].

    Rows are consecutive pieces of the text; with more rows asked for than it has,
    what there is.
    """
    data = np.frombuffer(text, np.uint8).astype(np.int64)
    available = (len(data) - 1) // seq
    if available < 1:
        raise ValueError(f"a text of {len(data)} bytes has no row of {seq}")
    count = available if rows is None else min(rows, available)
    tokens = data[:count * seq].reshape(count, seq)
    targets = data[1:count * seq + 1].reshape(count, seq)
    return tokens, targets
