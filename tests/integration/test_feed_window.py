"""Workers are fed no further ahead than they want, and no order of use can make a call wait for ever."""

import numpy as np
import pytest
import torch
from torch import nn

from pipestage.export import export_pipeline

ROWS, WIDTH = 64, 1024  # 256 KiB an input


class Add(nn.Module):
    def forward(self, x, early):
        return x + early


class AddBoth(nn.Module):
    def forward(self, x, early, late):
        return x + early + late


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    example = torch.zeros(4, WIDTH)
    # With two workers and LoopedBFS each rank uses "early" on all microbatches twice, rank 1 "late" only then.
    export_pipeline([Add(), Add(), Add(), AddBoth()], {"x": example, "early": example, "late": example},
                    path, "sums", "1",
                    keyword_inputs={0: ["early"], 1: ["early"], 2: ["early"], 3: ["early", "late"]},
                    output_names=["y"])
    return path


@pytest.mark.parametrize("window", ["1", "100000", "1000000"])
def test_call_is_exact_whatever_the_window_and_the_order_of_use(repository, start_cluster, window):
    cluster = start_cluster(repository, 2, worker_flags=("--feed-window-bytes", window))
    cluster.client.load_model("sums")
    x = np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)

    for schedule in ("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"):
        for microbatches in (1, 7, ROWS):
            result = cluster.client.eval("sums", inputs={"x": x, "early": x, "late": 2 * x}, schedule=schedule,
                                         num_microbatches=microbatches, return_outputs=True, timeout=30)

            np.testing.assert_array_equal(result.outputs["y"], 7 * x)
