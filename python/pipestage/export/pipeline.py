"""From modules to a model package: trace, check, write."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pipestage.export.checking import (
    PipelineCheck,
    example_sizes,
    quiet_run,
    trial_sizes,
)
from pipestage.export.errors import ExportError
from pipestage.export.loss import check_program, prepare_loss
from pipestage.export.package import (
    TracedPipeline,
    refuse_existing,
    write_package,
)
from pipestage.export.size_text import DataDependent, mentions
from pipestage.export.spec import LossProgram, PipelineSpec
from pipestage.export.split import split_spec
from pipestage.export.tensors import (
    TensorSpec,
    describe,
    example_of,
    flatten_output,
)
from pipestage.export.tracing import Call, TracedProgram, bind, trace
from pipestage.export.weights import check_shared
from pipestage.names import ROWS, is_package_name


def export_pipeline(stages: Sequence[nn.Module],
                    inputs: Mapping[str, torch.Tensor],
                    repository: str | os.PathLike, name: str, version: str,
                    **options: Any) -> Path:
    """Exports a model given as a list of stages; returns the package's folder.

    `options` are the fields of PipelineSpec. Nothing is written unless the
    exported stages, run one after the other, give what `stages` give.

    Raises:
      ExportError: the model cannot be exported as asked, or this version exists.
    """
    spec = PipelineSpec(stages=stages, inputs=inputs, **options)
    return export_spec(spec, repository, name, version)


def export_module(module: nn.Module, inputs: Mapping[str, torch.Tensor],
                  repository: str | os.PathLike, name: str, version: str, *,
                  split_points: Mapping[str, Any] | Sequence[str],
                  **options: Any) -> Path:
    """Exports one module, cut into stages at `split_points`.

    As export_pipeline; the split is torch.distributed.pipelining's.
    """
    spec = PipelineSpec(module=module, split_points=split_points,
                        inputs=inputs, **options)
    return export_spec(spec, repository, name, version)


def export_spec(spec: PipelineSpec, repository: str | os.PathLike, name: str,
                version: str) -> Path:
    """Exports what `spec` describes as `<repository>/<name>/<version>`."""
    for what, text in (("name", name), ("version", str(version))):
        if not is_package_name(text):
            raise ExportError(
                f"'{text}' cannot be a {what}: it must match "
                "[a-z0-9][a-z0-9._-]{0,127}")
    target = Path(repository) / name / str(version)
    refuse_existing(target)
    spec.check_arguments()
    if spec.module is not None:
        spec = split_spec(spec)
    spec.check_stage_inputs()
    traced = _trace_pipeline(spec)
    _check_pipeline(traced)
    write_package(traced, name, str(version), target)
    return target


def _trace_pipeline(spec: PipelineSpec) -> TracedPipeline:
    inputs, targets = spec.input_specs(), spec.target_specs()
    sizes = example_sizes(spec, {**inputs, **targets})
    _check_modules(spec)
    examples = {n: example_of(s, spec.inputs[n], sizes) for n, s in inputs.items()}
    flowing = [inputs[n] for n in spec.positional_names()]
    tensors = [examples[n] for n in spec.positional_names()]
    stages, step_stages, boundaries = [], [], []
    for index, stage in enumerate(spec.stages):
        names = spec.keyword_names(index)
        call = Call(flowing, {n: inputs[n] for n in names},
                    [*tensors, *(examples[n] for n in names)], spec.sizes)
        last = index == len(spec.stages) - 1
        tensors, _ = _run_stage(index, stage, call, last)
        traced = trace(f"stage {index}", stage, call, last=last)
        stages.append(traced)
        if spec.train_stages:
            step_stages.append(_trace_step(spec, index, call, last, traced))
        flowing = _boundary(spec, index, traced, last)
        boundaries.append(flowing)
    outputs = {t.name: t for t in boundaries[-1]}
    examples.update({n: example_of(s, spec.targets[n], sizes)
                     for n, s in targets.items()})
    examples.update(zip(outputs, tensors))
    loss = None
    if spec.loss is not None:
        loss = prepare_loss(spec.loss, outputs, targets, examples, spec.sizes)
    return TracedPipeline(spec, inputs, targets, sizes, stages, step_stages, boundaries,
                   loss)


def _check_modules(spec: PipelineSpec) -> None:
    if not spec.stages:
        raise ExportError("there are no stages")
    for lists in filter(None, (spec.stages, spec.train_stages)):
        states = []
        for index, stage in enumerate(lists):
            if not isinstance(stage, nn.Module):
                raise ExportError(
                    f"stage {index} is a {type(stage).__name__}, no nn.Module")
            states.append({**dict(stage.named_parameters(remove_duplicate=False)),
                           **dict(stage.named_buffers(remove_duplicate=False))})
            for name, tensor in states[-1].items():
                if tensor.device.type != "cpu":
                    raise ExportError(
                        f"'{name}' of stage {index} is on {tensor.device}: move "
                        "the model to the CPU to export it")
        check_shared(states, spec.tied)
    if spec.train_stages and len(spec.train_stages) != len(spec.stages):
        raise ExportError(
            f"{len(spec.stages)} stages but {len(spec.train_stages)} train_stages")
    if surplus := [s for s in spec.keyword_inputs
                   if not 0 <= s < len(spec.stages)]:
        raise ExportError(
            f"keyword_inputs names stages {surplus}; there are "
            f"{len(spec.stages)}, from 0")


def _run_stage(index: int, stage: nn.Module, call: Call,
               last: bool) -> tuple[list[torch.Tensor], list[str] | None]:
    """The stage's outputs for the examples: what it refuses, it refuses here."""
    bind(f"stage {index}", stage, call)
    try:
        with quiet_run([stage]):
            result = stage(*call.args, **call.kwargs)
    except Exception as error:
        given = ", ".join(describe(t) for t in call.examples)
        whose = f"what stage {index - 1} gives" if index else "its inputs"
        raise ExportError(
            f"stage {index} fails on {whose} ({given}): "
            f"{str(error).splitlines()[0] if str(error) else error!r}") from error
    tensors, names = flatten_output(f"stage {index}", result, last)
    return [t.detach() for t in tensors], names


def _trace_step(spec: PipelineSpec, index: int, call: Call, last: bool,
                evaluated: TracedProgram) -> TracedProgram:
    what = f"stage {index} in train mode"
    step = trace(what, spec.train_stages[index], call, last=last, train=True)
    names, wanted = set(step.program.state_dict), set(evaluated.program.state_dict)
    if names != wanted:
        raise ExportError(
            f"{what} has other weights than in eval mode: "
            f"{sorted(names ^ wanted)}")
    if (step.output_shapes, step.output_dtypes) != (
            evaluated.output_shapes, evaluated.output_dtypes):
        raise ExportError(f"{what} has outputs of other shapes or dtypes")
    return step


def _boundary(spec: PipelineSpec, index: int, traced: TracedProgram,
              last: bool) -> list[TensorSpec]:
    count = len(traced.output_shapes)
    if last:
        names = _output_names(spec, traced.output_names, count)
    elif count == 1:
        names = [f"stage{index}"]
    else:
        names = [f"stage{index}_{i}" for i in range(count)]
    specs = []
    for name, dtype, shape in zip(names, traced.output_dtypes,
                                  traced.output_shapes):
        unknown = any(isinstance(s, DataDependent) for s in shape)
        if unknown and not last:
            raise ExportError(
                f"stage {index} gives the next a tensor whose size depends on "
                "values; only the model's outputs may")
        specs.append(TensorSpec(name, dtype, shape, _rows_axis(spec, name, shape,
                                                               last)))
    return specs


def _output_names(spec: PipelineSpec, keys: Sequence[str] | None,
                  count: int) -> list[str]:
    names = spec.output_names if spec.output_names is not None else keys
    if names is None:
        names = ["output"] if count == 1 else [f"output_{i}" for i in range(count)]
    if len(names) != count or len(set(names)) != count:
        raise ExportError(
            f"the model gives {count} outputs; their names are {list(names)}")
    for mapping in (spec.inputs, spec.targets):
        if spec.loss is not None and (both := set(names) & set(mapping)):
            raise ExportError(
                f"{sorted(both)} name outputs and also inputs or targets: give "
                "outputs other names")
    if unknown := set(spec.output_axes) - set(names):
        raise ExportError(
            f"output_axes names {sorted(unknown)}; the outputs are {list(names)}")
    return list(names)


def _rows_axis(spec: PipelineSpec, name: str, shape: Sequence[Any],
               last: bool) -> int | None:
    """The axis that carries rows: along it, an output's microbatches are joined."""
    with_rows = [i for i, s in enumerate(shape) if mentions(s, ROWS)]
    unknown = [i for i, s in enumerate(shape) if isinstance(s, DataDependent)]
    if not last:
        return with_rows[0] if with_rows else None
    candidates = with_rows or unknown
    axis = candidates[0] if candidates else None
    if name in spec.output_axes:
        axis = spec.output_axes[name]
        if axis is not None and axis not in with_rows + unknown:
            raise ExportError(
                f"output '{name}' cannot be joined along axis {axis}, whose size "
                "does not depend on rows")
    if others := [i for i in with_rows if i != axis]:
        raise ExportError(
            f"output '{name}' has rows on axis {others[0]} besides "
            f"{'none to join' if axis is None else f'axis {axis}'}: what "
            "microbatches give could not be put together")
    return axis


def _check_pipeline(traced: TracedPipeline) -> None:
    spec = traced.spec
    check = PipelineCheck(spec, spec.stages, traced.stages, traced.boundaries)
    for sizes in trial_sizes(spec, traced.sizes):
        outputs = check.run(sizes)
        if isinstance(spec.loss, LossProgram):
            targets = {n: example_of(s, spec.targets[n], sizes)
                       for n, s in traced.targets.items()}
            check_program(spec.loss, traced.loss.traced, {**outputs, **targets},
                          spec.tolerance)
