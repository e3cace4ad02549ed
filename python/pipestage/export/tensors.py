"""Tensors as contracts describe them, and examples of any size."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch

from pipestage.export.errors import ExportError
from pipestage.export.size_text import SizeExpr, size_text
from pipestage.names import DTYPES


def dtype_name(what: str, dtype: torch.dtype) -> str:
    """The contract's name of a dtype; ExportError names `what` if it has none."""
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise ExportError(
            f"{what} is {name}, which does not cross stages; use one of "
            f"{', '.join(DTYPES)}")
    return name


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """Name, element type and symbolic shape of an argument or boundary tensor."""

    name: str
    dtype: torch.dtype
    shape: tuple[SizeExpr, ...]
    axis: int | None

    def contract(self) -> dict[str, Any]:
        """Its entry in pipeline.json."""
        return {
            "name": self.name,
            "dtype": dtype_name(f"'{self.name}'", self.dtype),
            "shape": [size_text(size) for size in self.shape],
            "axis": self.axis,
        }

    def __str__(self) -> str:
        sizes = ", ".join(str(size_text(size)) for size in self.shape)
        return f"{self.name}: {str(self.dtype).removeprefix('torch.')} [{sizes}]"


def describe(tensor: torch.Tensor) -> str:
    """"float32 [3, 8]"."""
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"


def example_of(spec: TensorSpec, example: torch.Tensor,
               values: Mapping[str, int]) -> torch.Tensor:
    """`example` made as long as `values` says along its named axes.

    Elements are repeated or cut, never invented: token ids stay within the vocabulary.
    """
    for axis, size in enumerate(spec.shape):
        if isinstance(size, sympy.Symbol):
            index = torch.arange(values[size.name]) % example.shape[axis]
            example = example.index_select(axis, index)
    return example.contiguous().clone()


def flatten_output(what: str, output: Any,
                   last: bool) -> tuple[list[torch.Tensor], list[str] | None]:
    """A stage's output as a list of tensors, and their names if it is a dict."""
    names = None
    if isinstance(output, torch.Tensor):
        tensors: Sequence[Any] = [output]
    elif isinstance(output, Mapping):
        if not last:
            raise ExportError(
                f"{what} returns a dict; only the last stage may: return a "
                "tuple of tensors")
        names, tensors = list(output.keys()), list(output.values())
    elif type(output) in (tuple, list):
        tensors = output
    else:
        raise ExportError(
            f"{what} returns {_a(type(output).__name__)}; a stage returns a "
            "tensor, a tuple of tensors or, the last one, a dict of tensors")
    places = names if names is not None else range(len(tensors))
    for place, value in zip(places, tensors):
        if not isinstance(place, (str, int)) or not isinstance(value, torch.Tensor):
            raise ExportError(
                f"{what} returns {_a(type(value).__name__)} at {place!r}; every "
                "output must be a tensor")
    if not tensors:
        raise ExportError(f"{what} returns no tensor")
    return list(tensors), names


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0].lower() in "aeiou" else f"a {noun}"
