"""Generates pipestage/_generated from proto/*.proto.

Does nothing if what is there was made from the same files. Needs grpcio-tools.

    python python/generate_protos.py
"""

import hashlib
import re
import shutil
import sys
import tempfile
from pathlib import Path

_PYTHON = Path(__file__).resolve().parent
_ROOT = _PYTHON.parent
_TARGET = _PYTHON / "pipestage" / "_generated"
_STAMP = _TARGET / ".made_from"


def _fingerprint(protos: list[Path]) -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for proto in protos:
        digest.update(proto.name.encode() + b"\0" + proto.read_bytes())
    return digest.hexdigest()


def _compile(protos: list[Path], target: Path) -> None:
    import grpc_tools
    from grpc_tools import protoc

    well_known = Path(grpc_tools.__file__).parent / "_proto"
    status = protoc.main([
        "protoc", f"-I{_ROOT}", f"-I{well_known}", f"--python_out={target}",
        f"--grpc_python_out={target}",
        *(str(p.relative_to(_ROOT)) for p in protos)])
    if status != 0:
        raise SystemExit(f"protoc failed with status {status}")


def _make_relative(source: Path) -> str:
    """Imports of our own messages within this package."""
    return re.sub(r"^from proto import ", "from . import ",
                  source.read_text(encoding="utf-8"), flags=re.MULTILINE)


def main() -> None:
    """Generates the stubs unless they are up to date."""
    protos = sorted((_ROOT / "proto").glob("*.proto"))
    fingerprint = _fingerprint(protos)
    if _STAMP.exists() and _STAMP.read_text() == fingerprint:
        return
    with tempfile.TemporaryDirectory() as directory:
        _compile(protos, Path(directory))
        shutil.rmtree(_TARGET, ignore_errors=True)
        _TARGET.mkdir(parents=True)
        (_TARGET / "__init__.py").write_text(
            '"""Generated from proto/ by generate_protos.py."""\n')
        for source in sorted((Path(directory) / "proto").glob("*.py")):
            (_TARGET / source.name).write_text(_make_relative(source),
                                               encoding="utf-8")
    _STAMP.write_text(fingerprint)
    print(f"generated {_TARGET}", file=sys.stderr)


if __name__ == "__main__":
    main()
