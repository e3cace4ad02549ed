"""Runs exported programs against the original before anything is written."""

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from pipestage.export.errors import ExportError
from pipestage.export.size_text import evaluate, size_text
from pipestage.export.spec import PipelineSpec, Size
from pipestage.export.tensors import (
    TensorSpec,
    describe,
    example_of,
    flatten_output,
)
from pipestage.export.tracing import TracedProgram, mode
from pipestage.names import ROWS

_PRIMES = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)


def example_sizes(spec: PipelineSpec,
                  specs: Mapping[str, TensorSpec]) -> dict[str, int]:
    """Sizes to trace with: at least 2, no two axes alike.

    Equal sizes might be taken for one; torch.export takes 1 for a constant.
    """
    examples = {**spec.inputs, **spec.targets}
    taken = {int(s) for t in specs.values() for s in t.shape if s.is_Integer}
    sizes: dict[str, int] = {}
    for name, tensor_spec in specs.items():
        for axis, size in enumerate(tensor_spec.shape):
            if size.is_Symbol and size.name not in sizes:
                bounds = spec.sizes.get(size.name, Size())
                wanted = examples[name].shape[axis]
                sizes[size.name] = _free_size(wanted, bounds, taken)
                taken.add(sizes[size.name])
    return sizes


def _free_size(wanted: int, bounds: Size, taken: set[int]) -> int:
    low = max(2, bounds.min)
    high = bounds.max if bounds.max is not None else low + 64
    candidates = [wanted, *_PRIMES, *range(low, min(high, low + 64) + 1)]
    allowed = [c for c in candidates if low <= c and
               (bounds.max is None or c <= bounds.max)]
    if not allowed:
        raise ExportError(
            f"sizes allow only {bounds.min} to {bounds.max}: a size that is "
            "always 1 is no open size")
    return next((c for c in allowed if c not in taken), allowed[0])


def trial_sizes(spec: PipelineSpec,
                example: Mapping[str, int]) -> list[dict[str, int]]:
    """Sizes to compare at: as traced, the smallest, and larger ones."""
    def bounds(name: str) -> Size:
        return spec.sizes.get(name, Size())

    smallest = {n: bounds(n).min for n in example}
    larger = {n: min(v + 4, bounds(n).max or v + 4) for n, v in example.items()}
    one_row = {**example, ROWS: bounds(ROWS).min}
    trials: list[dict[str, int]] = []
    for trial in (dict(example), one_row, larger, smallest):
        if trial not in trials:
            trials.append(trial)
    return trials


@contextlib.contextmanager
def quiet_run(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Eval mode, and a random state that is put back.

    Gradients are on, as torch.export traces: without them some modules
    (nn.TransformerEncoderLayer) choose other kernels, which round differently.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.random.fork_rng(devices=[]))
        for module in modules:
            stack.enter_context(mode(module, train=False))
        torch.manual_seed(0)
        yield


def call_by_name(module: nn.Module, inputs: Mapping[str, torch.Tensor]) -> Any:
    """Calls `module` with inputs as keywords if its forward has their names, else
    positionally, in order."""
    parameters = inspect.signature(module.forward).parameters
    if all(name in parameters for name in inputs):
        return module(**inputs)
    return module(*inputs.values())


class PipelineCheck:
    """Compares traced stages with the modules they came from."""

    def __init__(self, spec: PipelineSpec, stages: Sequence[nn.Module],
                 traced: Sequence[TracedProgram],
                 boundaries: Sequence[Sequence[TensorSpec]]):
        self._spec = spec
        self._stages = stages
        # As a worker runs them: without Python's guards on sizes.
        self._programs = [t.program.module(check_guards=False) for t in traced]
        self._traced = traced
        self._boundaries = boundaries

    def run(self, sizes: Mapping[str, int]) -> dict[str, torch.Tensor]:
        """Runs both at these sizes; returns the model's outputs by name.

        Raises:
          ExportError: they differ, or do not have the shapes of the contract.
        """
        spec, at = self._spec, ", ".join(f"{n}={v}" for n, v in sizes.items())
        inputs = {n: example_of(s, spec.inputs[n], sizes)
                  for n, s in spec.input_specs().items()}
        kept = {n: t.clone() for n, t in inputs.items()}
        expected = self._originals(inputs, at)
        actual = self._exported(inputs, at)
        for name, tensor in kept.items():
            if not torch.equal(tensor, inputs[name]):
                raise ExportError(f"the model changes its input '{name}' in place")
        for stage, (ours, theirs) in enumerate(zip(actual, expected)):
            self._compare(f"stage {stage}", at, ours, theirs)
            self._check_shapes(stage, ours, sizes)
        if spec.reference is not None:
            self._compare_reference(inputs, at, actual[-1])
        names = [t.name for t in self._boundaries[-1]]
        return dict(zip(names, actual[-1]))

    def _originals(self, inputs: Mapping[str, torch.Tensor],
                   at: str) -> list[list[torch.Tensor]]:
        with quiet_run(self._stages):
            return self._chain(inputs, self._stages, at, "the original model")

    def _exported(self, inputs: Mapping[str, torch.Tensor],
                  at: str) -> list[list[torch.Tensor]]:
        before = [{n: t.clone() for n, t in p.state_dict().items()}
                  for p in self._programs]
        with quiet_run([]):
            outputs = self._chain(inputs, self._programs, at, "the exported model")
        for stage, (state, program) in enumerate(zip(before, self._programs)):
            for name, tensor in program.state_dict().items():
                if not _same(tensor, state[name]):
                    raise ExportError(
                        f"stage {stage} changes '{name}' when it evaluates; "
                        "Eval must leave a model as it was")
        return outputs

    def _chain(self, inputs: Mapping[str, torch.Tensor],
               stages: Sequence[nn.Module], at: str,
               whose: str) -> list[list[torch.Tensor]]:
        flowing = [inputs[n] for n in self._spec.positional_names()]
        outputs = []
        for index, stage in enumerate(stages):
            keywords = {n: inputs[n] for n in self._traced[index].keyword_inputs}
            try:
                result = stage(*flowing, **keywords)
            except Exception as error:
                raise ExportError(
                    f"stage {index} of {whose} fails with {at}: "
                    f"{str(error).splitlines()[0] if str(error) else error!r}; "
                    "if it need not work there, declare sizes") from error
            flowing, _ = flatten_output(f"stage {index}", result,
                                        last=index == len(stages) - 1)
            flowing = [tensor.detach() for tensor in flowing]
            outputs.append(flowing)
        return outputs

    def _compare(self, what: str, at: str, ours: Sequence[torch.Tensor],
                 theirs: Sequence[torch.Tensor]) -> None:
        if len(ours) != len(theirs):
            raise ExportError(
                f"{what} gives {len(ours)} outputs, the original {len(theirs)}")
        for place, (a, b) in enumerate(zip(ours, theirs)):
            compare(f"output {place} of {what} with {at}", a, b,
                    self._spec.tolerance)

    def _compare_reference(self, inputs: Mapping[str, torch.Tensor], at: str,
                           ours: Sequence[torch.Tensor]) -> None:
        reference = self._spec.reference
        with quiet_run([reference]):
            result = call_by_name(reference, inputs)
        theirs, _ = flatten_output("the reference", result, last=True)
        self._compare("the whole model", at, ours, theirs)

    def _check_shapes(self, stage: int, tensors: Sequence[torch.Tensor],
                      sizes: Mapping[str, int]) -> None:
        for spec, tensor in zip(self._boundaries[stage], tensors):
            promised = [evaluate(s, sizes) for s in spec.shape]
            shape = [None if p is None else n for p, n in zip(promised, tensor.shape)]
            if shape != promised or tensor.dtype != spec.dtype:
                raise ExportError(
                    f"stage {stage} promises {spec} but gives {describe(tensor)} "
                    f"at {dict(sizes)}")


def compare(what: str, ours: torch.Tensor, theirs: torch.Tensor,
            tolerance: float) -> None:
    """ExportError unless the tensors agree; tolerance 0 means bit for bit."""
    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        raise ExportError(
            f"{what} is {describe(ours)}, the original's {describe(theirs)}")
    ours, theirs = ours.detach(), theirs.detach()
    if _same(ours, theirs):
        return
    difference = (ours.double() - theirs.double()).abs().nan_to_num(
        nan=float("inf")).max().item()
    scale = theirs.double().abs().nan_to_num(nan=0.0).max().item()
    if difference > tolerance * max(1.0, scale):
        raise ExportError(
            f"{what} differs from the original by up to {difference:.3g} "
            f"(allowed: {tolerance:g}); if rounding explains it, set tolerance")


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.shape != b.shape:
        return False
    return bool(((a == b) | ((a != a) & (b != b))).all())


def shape_text(spec: TensorSpec) -> list[str | int]:
    """A spec's shape as the contract writes it."""
    return [size_text(size) for size in spec.shape]
