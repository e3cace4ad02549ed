"""Stage programs as a package holds them: the graph without the weights."""

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path

import torch
from torch.export import ExportedProgram

# Weights lie beside the program, by name; sample inputs are a Python pickle that
# nothing reads; the serialization id differs from run to run.
_LEFT_OUT = ("data/weights/", "data/sample_inputs/", ".data/serialization_id")

# Every entry gets the same time, so that the same program gives the same bytes.
_TIME = (1980, 1, 1, 0, 0, 0)


def write_program(program: ExportedProgram, path: Path) -> None:
    """Writes `program` to `path` without its weights."""
    with tempfile.TemporaryDirectory(dir=path.parent) as directory:
        # The archive's records lie beneath a folder named after the file.
        full = os.path.join(directory, path.name)
        torch.export.save(program, full)
        _copy_records(full, path)


def _copy_records(source: str, target: Path) -> None:
    with zipfile.ZipFile(source) as full, zipfile.ZipFile(
            target, "w", zipfile.ZIP_STORED) as stripped:
        for entry in full.infolist():
            record = entry.filename.partition("/")[2]
            if record.startswith(_LEFT_OUT):
                continue
            copy = zipfile.ZipInfo(entry.filename, _TIME)
            stripped.writestr(copy, full.read(entry))


def file_entry(path: Path) -> dict[str, str | int]:
    """The file's entry in pipeline.json's `files`."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return {"sha256": digest.hexdigest(), "bytes": path.stat().st_size}
