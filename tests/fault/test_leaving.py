"""Workers that are told to stop while a call runs, and stages that never come back."""

import signal

import numpy as np
import pytest

from examples.closed_form.write import write_closed_form
from pipestage.client import PipestageError
from tests.cluster.calls import call_in_background, running
from tests.cluster.models import digits, digits_of, rows
from tests.cluster.processes import wait_for

STAGES = 2
FOR_EVER = 10**8  # milliseconds


@pytest.fixture
def repository(tmp_path):
    digits(tmp_path, STAGES)
    for name, milliseconds in (("sleepy", 50), ("stuck", FOR_EVER)):
        write_closed_form(tmp_path, name, "1", STAGES, module="sleepy",
                          params=[{"bias": 1.0, "milliseconds": 0}, {"bias": 2.0, "milliseconds": milliseconds}])
    return tmp_path


def load(cluster):
    for model in ("digits2", "sleepy", "stuck"):
        cluster.client.load_model(model)


def assert_exact(cluster):
    result = cluster.client.eval("digits2", inputs={"x": rows(7)}, num_microbatches=3, return_outputs=True)
    np.testing.assert_array_equal(result.outputs["y"], digits_of(rows(7), STAGES))


@pytest.mark.parametrize("rank", range(STAGES))
def test_a_worker_told_to_stop_in_mid_call_loses_nothing(start_cluster, repository, rank):
    cluster = start_cluster(repository, STAGES)
    load(cluster)
    thread, answer = call_in_background(cluster, model="sleepy", inputs={"x": rows(40)}, num_microbatches=40,
                                        return_outputs=True)
    wait_for(lambda: running(cluster) == 1, "the call to run")

    cluster.workers[rank].signal(signal.SIGTERM)
    wait_for(lambda: any(w.leaving for w in cluster.client.status().workers), "the worker to say that it leaves")
    with pytest.raises(PipestageError) as refused:
        assert_exact(cluster)
    thread.join()

    assert "result" in answer, answer
    assert answer["result"].outputs["y"].shape[0] == 40
    assert refused.value.code == "UNAVAILABLE" and f"w{rank}" in str(refused.value)
    assert cluster.workers[rank].child.wait(20) == 0
    cluster.start_worker(rank)
    cluster.wait_ready()
    assert_exact(cluster)


def test_a_stage_that_never_comes_back_is_named_and_its_worker_ends(start_cluster, repository):
    cluster = start_cluster(repository, STAGES, worker_flags=("--stage-timeout", "1"))
    load(cluster)

    with pytest.raises(PipestageError) as error:
        cluster.client.eval("stuck", inputs={"x": rows(4)}, num_microbatches=2)

    assert error.value.code == "UNAVAILABLE" and error.value.reason == "WORKER_LOST"
    assert "worker w1 (rank 1)" in str(error.value)
    assert "stage 1 has computed on microbatch 0" in str(error.value)
    assert cluster.workers[1].child.wait(20) == 1
    cluster.start_worker(1)
    cluster.wait_ready()
    assert_exact(cluster)


def test_a_worker_whose_stage_never_comes_back_still_ends_in_time(start_cluster, repository):
    cluster = start_cluster(repository, STAGES, worker_flags=("--drain-timeout", "1"))
    load(cluster)
    with pytest.raises(PipestageError):
        cluster.client.eval("stuck", inputs={"x": rows(4)}, num_microbatches=2, timeout=0.5)
    wait_for(lambda: any(w.computing.seconds > 0 for w in cluster.client.status().workers),
             "the status to show what is computed")

    cluster.workers[1].signal(signal.SIGTERM)

    assert cluster.workers[1].child.wait(15) == 1
    cluster.start_worker(1)
    cluster.wait_ready()
    assert_exact(cluster)
