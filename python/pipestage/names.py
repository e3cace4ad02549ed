"""Names and element types, as docs/formats.md writes them."""

import re

# The batch axis' size: the batch's rows in a whole tensor, the microbatch's in a part.
ROWS = "rows"

# PyTorch's names without "torch.", in the order of their numbers in tensor.proto
# (the first is 1).
DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)

_PACKAGE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
_SIZE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def is_package_name(text: str) -> bool:
    """Whether `text` may name a model or a version."""
    return _PACKAGE_NAME.fullmatch(text) is not None


def is_size_name(text: str) -> bool:
    """Whether `text` may name a size in a shape."""
    return _SIZE_NAME.fullmatch(text) is not None
