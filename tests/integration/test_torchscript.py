"""TorchScript stages through the service: where workers allow code, and where they do not."""

import hashlib
import json

import numpy as np
import pytest
import torch
from torch import nn

from examples.closed_form.write import write_closed_form
from pipestage.client import PipestageError
from tests.cluster.models import rows


class Affine(nn.Module):
    def __init__(self, scale: float, bias: float):
        super().__init__()
        self.scale, self.bias = scale, bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.bias


@pytest.fixture
def repository(tmp_path):
    """A package of two stages, x -> 3x + 1 -> 2x - 5."""
    folder = write_closed_form(tmp_path, "script", "1", 2)
    contract = json.loads((folder / "pipeline.json").read_text())
    for stage, module in enumerate((Affine(3.0, 1.0), Affine(2.0, -5.0))):
        path = folder / f"{stage}.pt"
        torch.jit.script(module.eval()).save(str(path))
        data = path.read_bytes()
        contract["stages"][stage]["program"] = {"kind": "torchscript", "file": path.name}
        contract["files"][path.name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    (folder / "pipeline.json").write_text(json.dumps(contract))
    return tmp_path


def test_scripts_run_where_workers_allow_code(start_cluster, repository):
    cluster = start_cluster(repository, 2, worker_flags=("--allow-torchscript",))
    cluster.client.load_model("script")

    result = cluster.client.eval("script", inputs={"x": rows(7)}, num_microbatches=3, return_outputs=True)

    np.testing.assert_array_equal(result.outputs["y"], 2 * (3 * rows(7) + 1) - 5)


def test_scripts_are_refused_by_name_where_workers_do_not(start_cluster, repository):
    cluster = start_cluster(repository, 2)

    with pytest.raises(PipestageError) as error:
        cluster.client.load_model("script")

    assert error.value.code == "FAILED_PRECONDITION" and error.value.reason == "MODEL_BROKEN"
    assert "--allow-torchscript" in str(error.value) and ".pt" in str(error.value)
