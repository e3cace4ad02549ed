"""Packages whose stages are C++ modules with a closed form: no export, no weights.

What such a model computes can be said in one line, so a test or a reader can check
every number. With module "digit", stage s gives 10*x + (s+1): row i comes out as the
digits i, 1, 2 ... S.

    python examples/closed_form/write.py --repository models --stages 4
"""

import argparse
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_LOSSES = {"mse": "mean_squared_error"}


def write_closed_form(repository: str | os.PathLike, name: str, version: str,
                      num_stages: int, module: str = "digit",
                      params: Sequence[Mapping[str, Any]] | None = None,
                      loss: str | None = None, width: int = 1,
                      dtype: str = "float64") -> Path:
    """Writes <repository>/<name>/<version>: x -> y, both [rows, width].

    Args:
      repository: folder of the packages.
      name: of the model.
      version: of the model.
      num_stages: how many stages.
      module: registered name of the C++ module that every stage is.
      params: of each stage's module. Default: {"s": stage + 1} for "digit", else none.
      loss: None, or "mse": mean squared error of y against the target "target".
      width: size of the second axis.
      dtype: of x, y, target and what passes between stages.
    """
    if params is None:
        params = [{"s": s + 1} if module == "digit" else {}
                  for s in range(num_stages)]
    if len(params) != num_stages:
        raise ValueError(f"{num_stages} stages but params of {len(params)}")
    contract = _contract(name, version, module, params, loss,
                         lambda n: _tensor(n, dtype, width))
    folder = Path(repository) / name / version
    if folder.exists():
        raise FileExistsError(f"{folder} exists, and a package never changes")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=folder.parent) as scratch:
        written = Path(scratch) / version
        written.mkdir()
        (written / "pipeline.json").write_text(
            json.dumps(contract, indent=2) + "\n", encoding="utf-8")
        written.rename(folder)
    return folder


def _tensor(name: str, dtype: str, width: int) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": ["rows", width], "axis": 0}


def _contract(name: str, version: str, module: str,
              params: Sequence[Mapping[str, Any]], loss: str | None,
              tensor: Any) -> dict[str, Any]:
    last = len(params) - 1
    names = ["x", *(f"h{s}" for s in range(last)), "y"]
    contract: dict[str, Any] = {
        "format": "pipestage.pipeline/1",
        "name": name,
        "version": version,
        "description": f"{len(params)} stages of {module}, in closed form",
        "inputs": [tensor("x")],
        "targets": [tensor("target")] if loss else [],
        "outputs": [tensor("y")],
        "stages": [
            {"program": {"kind": "module", "name": module,
                         "params": dict(params[s])},
             "inputs": [tensor(names[s])],
             "keyword_inputs": [],
             "outputs": [tensor(names[s + 1])]}
            for s in range(len(params))
        ],
        "files": {},
    }
    if loss:
        contract["loss"] = {"kind": _LOSSES[loss], "prediction": "y",
                            "target": "target"}
    return contract


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repository", default="models")
    parser.add_argument("--name", default="digits")
    parser.add_argument("--version", default="1")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--module", default="digit")
    parser.add_argument("--loss", choices=sorted(_LOSSES))
    arguments = parser.parse_args()
    print(write_closed_form(arguments.repository, arguments.name,
                            arguments.version, arguments.stages,
                            arguments.module, loss=arguments.loss))


if __name__ == "__main__":
    main()
