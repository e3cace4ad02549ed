"""What a person says about a model to have it exported."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Union

import sympy
import torch
from torch import nn

from pipestage.export.errors import ExportError
from pipestage.export.size_text import named_size
from pipestage.export.tensors import TensorSpec, dtype_name
from pipestage.names import ROWS, is_size_name


@dataclasses.dataclass(frozen=True)
class Size:
    """Allowed values of a named size."""

    min: int = 1
    max: int | None = None


@dataclasses.dataclass(frozen=True)
class CrossEntropy:
    """Of an output `[..., classes]` against an integer target `[...]`."""

    prediction: str
    target: str
    ignore_index: int = -100


@dataclasses.dataclass(frozen=True)
class MeanSquaredError:
    """Of an output against a target of the same shape; every element counts."""

    prediction: str
    target: str


@dataclasses.dataclass(frozen=True)
class LossProgram:
    """A module of one's own.

    It is called with `inputs` (names of outputs and targets) and returns losses
    `[rows]` or `[rows, ...]`, and optionally their weights: of the same shape,
    integer or bool.
    """

    module: nn.Module
    inputs: Sequence[str]


Loss = Union[CrossEntropy, MeanSquaredError, LossProgram]


@dataclasses.dataclass(kw_only=True)
class PipelineSpec:
    """A model to be exported: either `stages`, or `module` and `split_points`.

    Examples are tensors of the right dtype and shape whose values the model can
    take; their sizes along open axes do not matter.
    """

    # Every model input, by name, with an example.
    inputs: Mapping[str, torch.Tensor]
    stages: Sequence[nn.Module] = ()
    # One module, cut before (or after) the submodules named: {"blocks.2":
    # SplitPoint.BEGINNING}, or just ["blocks.2"]. Inputs have the names of the
    # parameters of its forward.
    module: nn.Module | None = None
    split_points: Mapping[str, Any] | Sequence[str] = ()

    # Inputs that stage 0 takes positionally, in order. Default: those that no
    # stage takes as a keyword.
    positional: Sequence[str] | None = None
    # Inputs that a stage takes as keywords, by stage.
    keyword_inputs: Mapping[int, Sequence[str]] = dataclasses.field(
        default_factory=dict)
    targets: Mapping[str, torch.Tensor] = dataclasses.field(default_factory=dict)

    # The axis of an input or target that is split into microbatches; None =
    # replicated. Default: 0, or None for a 0-dim tensor.
    axes: Mapping[str, int | None] = dataclasses.field(default_factory=dict)
    # Further open axes: {"tokens": {1: "seq"}}.
    dynamic_axes: Mapping[str, Mapping[int, str]] = dataclasses.field(
        default_factory=dict)
    # Bounds of named sizes, "rows" among them. Default: at least 1.
    sizes: Mapping[str, Size] = dataclasses.field(default_factory=dict)

    # Names of the last stage's outputs. Default: its dict's keys, or "output",
    # or "output_0", "output_1" ...
    output_names: Sequence[str] | None = None
    # The axis along which an output's microbatches are joined; None = stacked.
    # Default: the axis that has rows.
    output_axes: Mapping[str, int | None] = dataclasses.field(
        default_factory=dict)
    loss: Loss | None = None

    num_microbatches: int | None = None
    schedule: str | None = None
    description: str = ""

    # The stages to export for Step, in train mode; may be `stages` themselves.
    train_stages: Sequence[nn.Module] | None = None
    # With `module`: export it for Step as well.
    train: bool = False
    # The model in one piece, to compare with. Called with the inputs by name.
    reference: nn.Module | None = None
    # How far outputs of the exported stages may be from the original's.
    tolerance: float = 0.0
    # Parameters that several stages hold on purpose, each its own copy:
    # [("0:embed.weight", "1:head.weight")].
    tied: Sequence[Sequence[str]] = ()

    def input_specs(self) -> dict[str, TensorSpec]:
        """The inputs as the contract describes them."""
        return {n: self._spec("input", n, t) for n, t in self.inputs.items()}

    def target_specs(self) -> dict[str, TensorSpec]:
        """The targets as the contract describes them."""
        return {n: self._spec("target", n, t) for n, t in self.targets.items()}

    def positional_names(self) -> list[str]:
        """Inputs that stage 0 takes positionally."""
        if self.positional is not None:
            return list(self.positional)
        keywords = {n for ns in self.keyword_inputs.values() for n in ns}
        return [name for name in self.inputs if name not in keywords]

    def keyword_names(self, stage: int) -> list[str]:
        """Inputs that a stage takes as keywords."""
        return list(self.keyword_inputs.get(stage, ()))

    def _spec(self, kind: str, name: str, example: torch.Tensor) -> TensorSpec:
        if not isinstance(example, torch.Tensor):
            raise ExportError(
                f"the example of {kind} '{name}' is a {type(example).__name__}, "
                "not a tensor")
        dtype_name(f"{kind} '{name}'", example.dtype)
        axis = self.axes.get(name, 0 if example.dim() else None)
        if axis is not None:
            axis = _checked_axis(kind, name, example, axis)
        shape = [sympy.Integer(n) for n in example.shape]
        for at, size in self.dynamic_axes.get(name, {}).items():
            if not is_size_name(size) or size == ROWS:
                raise ExportError(
                    f"'{size}' cannot name a size of {kind} '{name}': use "
                    "letters, digits and _; 'rows' is the split axis")
            shape[_checked_axis(kind, name, example, at)] = named_size(size)
        if axis is not None:
            shape[axis] = named_size(ROWS)
        return TensorSpec(name, example.dtype, tuple(shape), axis)

    def check_arguments(self) -> None:
        """Refuses arguments that contradict themselves; ExportError says which."""
        specs = {**self.input_specs(), **self.target_specs()}
        both = set(self.inputs) & set(self.targets)
        if both:
            raise ExportError(f"{sorted(both)} are both inputs and targets")
        for option in ("axes", "dynamic_axes"):
            unknown = set(getattr(self, option)) - set(specs)
            if unknown:
                raise ExportError(
                    f"{option} names {sorted(unknown)}; the inputs and targets "
                    f"are {sorted(specs)}")
        if not any(specs[n].axis is not None for n in self.inputs):
            raise ExportError("no input is split: at least one must have rows")
        names = {ROWS} | {
            s for axes in self.dynamic_axes.values() for s in axes.values()}
        if unknown := set(self.sizes) - names:
            raise ExportError(
                f"sizes names {sorted(unknown)}, which no axis has; the named "
                f"sizes are {sorted(names)}")
        self._check_sizes_agree(specs)
        if self.targets and self.loss is None:
            raise ExportError("there are targets but no loss")

    def _check_sizes_agree(self, specs: Mapping[str, TensorSpec]) -> None:
        seen: dict[str, tuple[int, str]] = {}
        for name, example in {**self.inputs, **self.targets}.items():
            for axis, size in enumerate(specs[name].shape):
                if not size.is_Symbol:
                    continue
                length = example.shape[axis]
                if length == 0:
                    raise ExportError(f"the example of '{name}' is empty")
                first = seen.setdefault(size.name, (length, name))
                if first[0] != length:
                    raise ExportError(
                        f"'{size.name}' is {first[0]} in '{first[1]}' but "
                        f"{length} in '{name}'")

    def check_stage_inputs(self) -> None:
        """Refuses inputs of stages that do not exist, and inputs nobody takes."""
        lists = [("stage 0's positional inputs", self.positional_names())]
        lists += [(f"stage {s}'s keyword_inputs", ns)
                  for s, ns in self.keyword_inputs.items()]
        used: set[str] = set()
        for what, names in lists:
            if unknown := [n for n in names if n not in self.inputs]:
                raise ExportError(
                    f"{what} name {unknown}; the inputs are {list(self.inputs)}")
            if len(set(names)) != len(names):
                raise ExportError(f"{what} name one input twice: {list(names)}")
            used |= set(names)
        if not self.positional_names():
            raise ExportError("stage 0 has no positional input")
        if unused := [n for n in self.inputs if n not in used]:
            raise ExportError(f"no stage uses the inputs {unused}")


def _checked_axis(kind: str, name: str, example: torch.Tensor, axis: int) -> int:
    if not -example.dim() <= axis < example.dim():
        raise ExportError(
            f"{kind} '{name}' has no axis {axis}: its example has shape "
            f"{list(example.shape)}")
    return axis % example.dim()
