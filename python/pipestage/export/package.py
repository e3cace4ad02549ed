"""A traced model as a package on disk: see docs/formats.md."""

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import pipestage
from pipestage.export.archive import file_entry, write_program
from pipestage.export.errors import ExportError
from pipestage.export.loss import TracedLoss
from pipestage.export.spec import PipelineSpec
from pipestage.export.tensors import TensorSpec
from pipestage.export.tracing import TracedProgram
from pipestage.export.weights import write_weights

FORMAT = "pipestage.pipeline/1"
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


@dataclasses.dataclass
class TracedPipeline:
    """Everything about a model that goes into its package."""

    spec: PipelineSpec
    inputs: dict[str, TensorSpec]
    targets: dict[str, TensorSpec]
    sizes: dict[str, int]
    stages: list[TracedProgram]
    step_stages: list[TracedProgram]
    boundaries: list[list[TensorSpec]]  # outputs of each stage
    loss: TracedLoss | None


def refuse_existing(target: Path) -> None:
    """ExportError if this version is there."""
    if target.exists():
        raise ExportError(
            f"{target} exists, and a package never changes: choose another version")


class _Contract:
    """The content of pipeline.json."""

    def __init__(self, traced: TracedPipeline, name: str, version: str):
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


def write_package(traced: TracedPipeline, name: str, version: str,
                  target: Path) -> None:
    """Writes the package under a temporary name, then renames it: all or nothing."""
    contract = _Contract(traced, name, version)
    target.parent.mkdir(parents=True, exist_ok=True)
    # A leading dot is no valid version: nobody takes it for a package.
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.",
                                      dir=target.parent))
    try:
        temporary.chmod(0o755)
        files = _write_files(traced, temporary)
        text = json.dumps(contract.to_dict(files), indent=2) + "\n"
        (temporary / "pipeline.json").write_text(text, encoding="utf-8")
        refuse_existing(target)
        temporary.rename(target)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _write_files(traced: TracedPipeline, directory: Path) -> dict[str, Any]:
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
