"""Reads packages in tests the way a worker does."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open


def contract_of(package: Path) -> dict[str, Any]:
    return json.loads((package / "pipeline.json").read_text())


def shapes(tensors: list[dict[str, Any]]) -> dict[str, list]:
    return {t["name"]: t["shape"] for t in tensors}


def records(program: Path) -> torch._C.PyTorchFileReader:
    """The archive, read by the class that workers read it with."""
    return torch._C.PyTorchFileReader(str(program))


def graph_of(program: Path) -> dict[str, Any]:
    return json.loads(records(program).get_record("models/model.json"))


def weights_of(package: Path, stage: int) -> tuple[dict[str, torch.Tensor], dict]:
    """Tensors and metadata of a stage's safetensors file."""
    file = package / "weights" / f"{stage}.safetensors"
    with safe_open(file, framework="pt") as opened:
        names = opened.keys()
        return {n: opened.get_tensor(n) for n in names}, opened.metadata() or {}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def leftovers(repository: Path) -> list[Path]:
    """Everything in a repository that should hold nothing."""
    return [p for p in repository.rglob("*") if p.is_file() or p.name.startswith(".")]
