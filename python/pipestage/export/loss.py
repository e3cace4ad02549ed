"""The loss of a package: what it may be, and the program of one's own."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from pipestage.export.checking import compare, quiet_run, shape_text
from pipestage.export.errors import ExportError
from pipestage.export.size_text import mentions, named_size
from pipestage.export.spec import (
    CrossEntropy,
    Loss,
    LossProgram,
    Size,
)
from pipestage.export.tensors import TensorSpec, flatten_output
from pipestage.export.tracing import Call, TracedProgram, trace
from pipestage.names import ROWS


@dataclasses.dataclass(frozen=True)
class TracedLoss:
    """A loss' entry in pipeline.json, and its program if it has one."""

    contract: dict[str, Any]
    traced: TracedProgram | None = None


def prepare_loss(loss: Loss, outputs: Mapping[str, TensorSpec],
                 targets: Mapping[str, TensorSpec],
                 examples: Mapping[str, torch.Tensor],
                 sizes: Mapping[str, Size]) -> TracedLoss:
    """Checks a loss against the model's outputs and targets, and traces it."""
    if isinstance(loss, LossProgram):
        return _trace_program(loss, {**outputs, **targets}, examples, sizes)
    prediction = _find("output", loss.prediction, outputs)
    target = _find("target", loss.target, targets)
    if isinstance(loss, CrossEntropy):
        _check_cross_entropy(prediction, target)
        return TracedLoss({
            "kind": "cross_entropy", "prediction": loss.prediction,
            "target": loss.target, "ignore_index": loss.ignore_index})
    if shape_text(prediction) != shape_text(target):
        raise ExportError(
            f"mean squared error of {prediction} needs a target of that shape, "
            f"not {target}")
    return TracedLoss({
        "kind": "mean_squared_error", "prediction": loss.prediction,
        "target": loss.target})


def _find(kind: str, name: str, specs: Mapping[str, TensorSpec]) -> TensorSpec:
    if name not in specs:
        raise ExportError(
            f"the loss names {kind} '{name}'; the {kind}s are {list(specs)}")
    return specs[name]


def _check_cross_entropy(prediction: TensorSpec, target: TensorSpec) -> None:
    if not prediction.dtype.is_floating_point or not prediction.shape:
        raise ExportError(f"cross entropy needs logits, not {prediction}")
    if target.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8,
                            torch.uint8):
        raise ExportError(f"cross entropy needs integer targets, not {target}")
    if shape_text(target) != shape_text(prediction)[:-1]:
        raise ExportError(
            f"cross entropy of {prediction} needs a target of its shape less "
            f"the last axis, not {target}")


def _trace_program(loss: LossProgram, specs: Mapping[str, TensorSpec],
                   examples: Mapping[str, torch.Tensor],
                   sizes: Mapping[str, Size]) -> TracedLoss:
    inputs = [_find("output or target", n, specs) for n in loss.inputs]
    if any(not hasattr(s, "free_symbols") for t in inputs for s in t.shape):
        raise ExportError("a loss program cannot take an output of unknown size")
    call = Call(inputs, {}, [examples[n] for n in loss.inputs], sizes)
    traced = trace("the loss", loss.module, call, last=False)
    _check_results(traced)
    return TracedLoss({"kind": "program", "inputs": list(loss.inputs)}, traced)


def _check_results(traced: TracedProgram) -> None:
    shapes, dtypes = traced.output_shapes, traced.output_dtypes
    losses = TensorSpec("losses", dtypes[0], shapes[0], None)
    if len(shapes) > 2:
        raise ExportError(
            f"the loss returns {len(shapes)} tensors; it returns losses and, if "
            "need be, their weights")
    if not dtypes[0].is_floating_point or shapes[0][:1] != (named_size(ROWS),):
        raise ExportError(
            f"the loss returns {losses}; it returns losses [rows] or [rows, ...], "
            "not their mean")
    if any(mentions(s, ROWS) for s in shapes[0][1:]):
        raise ExportError(f"the loss returns {losses}, with rows on two axes")
    if len(shapes) == 2:
        weights = TensorSpec("weights", dtypes[1], shapes[1], None)
        if dtypes[1].is_floating_point or shapes[1] != shapes[0]:
            raise ExportError(
                f"the loss returns {losses} with {weights}; weights are integers "
                "or bools of the losses' shape")


def check_program(loss: LossProgram, traced: TracedProgram,
                  tensors: Mapping[str, torch.Tensor], tolerance: float) -> None:
    """Compares the exported loss with the module on these tensors."""
    arguments = [tensors[name] for name in loss.inputs]
    with quiet_run([loss.module]):
        theirs, _ = flatten_output("the loss", loss.module(*arguments), False)
        ours, _ = flatten_output(
            "the loss", traced.program.module(check_guards=False)(*arguments),
            False)
    for place, (a, b) in enumerate(zip(ours, theirs)):
        compare(f"output {place} of the loss", a, b, tolerance)
