"""From modules to a model package on disk."""

import dataclasses
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

import pipestage
from pipestage.export.archive import file_entry, write_program
from pipestage.export.checking import (
    PipelineCheck,
    example_sizes,
    quiet_run,
    trial_sizes,
)
from pipestage.export.errors import ExportError
from pipestage.export.loss import TracedLoss, check_program, prepare_loss
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
from pipestage.export.weights import check_shared, write_weights
from pipestage.names import ROWS, is_package_name

FORMAT = "pipestage.pipeline/1"


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
    _refuse_existing(target)
    spec.check_arguments()
    if spec.module is not None:
        spec = split_spec(spec)
    spec.check_stage_inputs()
    traced = _trace_pipeline(spec)
    _check_pipeline(traced)
    contract = _Contract(traced, name, str(version))
    _write(traced, contract, target)
    return target


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise ExportError(
            f"{target} exists, and a package never changes: choose another version")


@dataclasses.dataclass
class _Traced:
    """Everything about a model that goes into its package."""

    spec: PipelineSpec
    inputs: dict[str, TensorSpec]
    targets: dict[str, TensorSpec]
    sizes: dict[str, int]
    stages: list[TracedProgram]
    step_stages: list[TracedProgram]
    boundaries: list[list[TensorSpec]]  # outputs of each stage
    loss: TracedLoss | None


def _trace_pipeline(spec: PipelineSpec) -> _Traced:
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
    return _Traced(spec, inputs, targets, sizes, stages, step_stages, boundaries,
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


def _check_pipeline(traced: _Traced) -> None:
    spec = traced.spec
    check = PipelineCheck(spec, spec.stages, traced.stages, traced.boundaries)
    for sizes in trial_sizes(spec, traced.sizes):
        outputs = check.run(sizes)
        if isinstance(spec.loss, LossProgram):
            targets = {n: example_of(s, spec.targets[n], sizes)
                       for n, s in traced.targets.items()}
            check_program(spec.loss, traced.loss.traced, {**outputs, **targets},
                          spec.tolerance)


class _Contract:
    """The content of pipeline.json."""

    def __init__(self, traced: _Traced, name: str, version: str):
        self._traced = traced
        self._name = name
        self._version = version

    def to_dict(self, files: Mapping[str, Any]) -> dict[str, Any]:
        traced, spec = self._traced, self._traced.spec
        contract: dict[str, Any] = {
            "format": FORMAT, "name": self._name, "version": self._version}
        if spec.description:
            contract["description"] = spec.description
        contract["created_by"] = {"pipestage": pipestage.__version__,
                                  "torch": torch.__version__}
        contract["defaults"] = self._defaults()
        contract["sizes"] = self._sizes()
        contract["inputs"] = [t.contract() for t in traced.inputs.values()]
        contract["targets"] = [t.contract() for t in traced.targets.values()]
        contract["outputs"] = [t.contract() for t in traced.boundaries[-1]]
        contract["stages"] = [self._stage(i) for i in range(len(traced.stages))]
        if traced.loss is not None:
            contract["loss"] = self._loss()
        contract["files"] = dict(files)
        return contract

    def _defaults(self) -> dict[str, Any]:
        spec = self._traced.spec
        defaults = {"num_microbatches": spec.num_microbatches,
                    "schedule": spec.schedule}
        return {k: v for k, v in defaults.items() if v is not None}

    def _sizes(self) -> dict[str, Any]:
        """Bounds of the named sizes that have any."""
        sizes = {}
        for name, bounds in self._traced.spec.sizes.items():
            sizes[name] = {"min": bounds.min}
            if bounds.max is not None:
                sizes[name]["max"] = bounds.max
        return sizes

    def _stage(self, index: int) -> dict[str, Any]:
        traced = self._traced
        if index == 0:
            inputs = [traced.inputs[n] for n in traced.spec.positional_names()]
        else:
            inputs = traced.boundaries[index - 1]
        stage: dict[str, Any] = {
            "program": {"kind": "export", "file": eval_file(index)}}
        if traced.step_stages:
            stage["step_program"] = {"kind": "export", "file": step_file(index)}
        if traced.stages[index].program.state_dict:
            stage["weights"] = weights_file(index)
        stage["inputs"] = [t.contract() for t in inputs]
        stage["keyword_inputs"] = traced.stages[index].keyword_inputs
        stage["outputs"] = [t.contract() for t in traced.boundaries[index]]
        return stage

    def _loss(self) -> dict[str, Any]:
        loss = self._traced.loss
        contract = dict(loss.contract)
        if loss.traced is not None:
            contract["program"] = {"kind": "export", "file": LOSS_FILE}
            if loss.traced.program.state_dict:
                contract["weights"] = LOSS_WEIGHTS_FILE
        return contract


LOSS_FILE = "loss/loss.pt2"
LOSS_WEIGHTS_FILE = "loss/loss.safetensors"


def eval_file(stage: int) -> str:
    """Where a stage's program for Eval lies within the package."""
    return f"stages/{stage}.eval.pt2"


def step_file(stage: int) -> str:
    """Where a stage's program for Step lies."""
    return f"stages/{stage}.step.pt2"


def weights_file(stage: int) -> str:
    """Where a stage's weights lie."""
    return f"weights/{stage}.safetensors"


def _write(traced: _Traced, contract: _Contract, target: Path) -> None:
    """Writes the package under a temporary name, then renames it: all or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True)
    # A leading dot is no valid version: nobody takes it for a package.
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.",
                                      dir=target.parent))
    try:
        temporary.chmod(0o755)
        files = _write_files(traced, temporary)
        text = json.dumps(contract.to_dict(files), indent=2) + "\n"
        (temporary / "pipeline.json").write_text(text, encoding="utf-8")
        _refuse_existing(target)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write_files(traced: _Traced, directory: Path) -> dict[str, Any]:
    programs = {eval_file(i): t for i, t in enumerate(traced.stages)}
    programs |= {step_file(i): t for i, t in enumerate(traced.step_stages)}
    weights = {weights_file(i): t for i, t in enumerate(traced.stages)}
    if traced.loss is not None and traced.loss.traced is not None:
        programs[LOSS_FILE] = traced.loss.traced
        weights[LOSS_WEIGHTS_FILE] = traced.loss.traced
    for file, program in programs.items():
        path = directory / file
        path.parent.mkdir(exist_ok=True)
        write_program(program.program, path)
    for file, program in weights.items():
        if program.program.state_dict:
            path = directory / file
            path.parent.mkdir(exist_ok=True)
            write_weights(program.program.state_dict, path)
            programs[file] = program
    return {file: file_entry(directory / file) for file in sorted(programs)}
