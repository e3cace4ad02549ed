"""Arrays to messages and back."""

import dataclasses
import sys
from typing import Any

import numpy as np

from pipestage.client import protocol
from pipestage.names import DTYPES


@dataclasses.dataclass(frozen=True)
class RawTensor:
    """A tensor as bytes: for bfloat16 where neither ml_dtypes nor torch is there.

    Attributes:
      dtype: its name, such as "bfloat16".
      shape: sizes of its axes.
      data: its elements, row-major, little endian.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes


@dataclasses.dataclass(frozen=True)
class Encoded:
    """A tensor ready to be sent; `data` may share the caller's memory."""

    dtype: int
    shape: tuple[int, ...]
    data: memoryview

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    def to_proto(self) -> protocol.Tensor:
        return protocol.Tensor(dtype=self.dtype, shape=self.shape,
                               data=bytes(self.data))

    def spec(self) -> protocol.TensorSpec:
        return protocol.TensorSpec(dtype=self.dtype, shape=self.shape)


def encode(name: str, value: Any) -> Encoded:
    """Encodes a numpy array, torch tensor, RawTensor, number or nested list.

    Raises:
      TypeError: its elements have no counterpart in tensor.proto.
    """
    if isinstance(value, RawTensor):
        return Encoded(_number(name, value.dtype), tuple(value.shape),
                       memoryview(value.data))
    if _is_torch(value):
        return _encode_torch(name, value)
    array = np.asarray(value)
    number = _number(name, array.dtype.name)
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "="
                                        and sys.byteorder == "big"):
        array = array.astype(array.dtype.newbyteorder("<"))
    return Encoded(number, array.shape, _bytes_of(array))


def decode(tensor: protocol.Tensor) -> Any:
    """A numpy array of its own memory; see `from_bytes`."""
    return from_bytes(tensor.dtype, tuple(tensor.shape), bytearray(tensor.data))


def from_bytes(dtype: int, shape: tuple[int, ...], data: bytearray) -> Any:
    """An array over `data`. bfloat16 needs ml_dtypes, or else comes as a torch
    tensor if torch is loaded, or else as a RawTensor."""
    if not 1 <= dtype <= len(DTYPES):
        raise ValueError(f"the service sent a tensor of unknown dtype {dtype}")
    name = DTYPES[dtype - 1]
    if name == "bfloat16":
        return _bfloat16(shape, data)
    return np.frombuffer(data, np.dtype(name).newbyteorder("<")).reshape(shape)


def _number(name: str, dtype: str) -> int:
    if dtype not in DTYPES:
        raise TypeError(
            f"'{name}' has elements of {dtype}; tensors are of "
            f"{', '.join(DTYPES)}")
    return DTYPES.index(dtype) + 1


def _bytes_of(array: np.ndarray) -> memoryview:
    flat = np.ascontiguousarray(array).reshape(-1)
    return memoryview(flat.view(np.uint8))


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _encode_torch(name: str, tensor: Any) -> Encoded:
    import torch

    number = _number(name, str(tensor.dtype).removeprefix("torch."))
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    data = tensor.reshape(-1).view(torch.uint8).numpy()
    return Encoded(number, tuple(tensor.shape), memoryview(data))


def _bfloat16(shape: tuple[int, ...], data: bytearray) -> Any:
    try:
        import ml_dtypes
    except ImportError:
        pass
    else:
        return np.frombuffer(data, ml_dtypes.bfloat16).reshape(shape)
    if torch := sys.modules.get("torch"):
        if not data:
            return torch.empty(shape, dtype=torch.bfloat16)
        return torch.frombuffer(data, dtype=torch.bfloat16).reshape(shape)
    return RawTensor("bfloat16", shape, bytes(data))
