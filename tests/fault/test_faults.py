"""Workers that die, stages that throw, callers that go away: a clear answer, and the next
call exact.
"""

import signal
import threading
import time

import numpy as np
import pytest

from examples.closed_form.write import write_closed_form
from pipestage.client import Client, PipestageError
from tests.cluster.calls import call_in_background, running
from tests.cluster.models import digits, digits_of, rows
from tests.cluster.processes import wait_for

STAGES = 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, start_cluster):
    repository = tmp_path_factory.mktemp("models")
    digits(repository, STAGES)
    # Stage 1 takes 100 ms a microbatch.
    write_closed_form(repository, "sleepy", "1", STAGES, module="sleepy",
                      params=[{"bias": 1.0, "milliseconds": 0}, {"bias": 2.0, "milliseconds": 100}])
    # Stage 1 throws when a row holds 13.
    write_closed_form(repository, "boom", "1", STAGES, module="boom",
                      params=[{"bias": 0.0, "throw_at": -1.0}, {"bias": 0.0, "throw_at": 13.0}])
    cluster = start_cluster(repository, STAGES, flags=("--worker-timeout", "5"))
    for model in ("digits2", "sleepy", "boom"):
        cluster.client.load_model(model)
    return cluster


@pytest.fixture(autouse=True)
def next_call_is_exact(cluster):
    """After every test the service answers the next good call exactly."""
    yield
    cluster.wait_ready()
    assert_exact(cluster.client)


def assert_exact(client, batch=7, microbatches=3, base=0):
    result = client.eval("digits2", inputs={"x": rows(batch, base)}, num_microbatches=microbatches,
                         return_outputs=True)
    np.testing.assert_array_equal(result.outputs["y"], digits_of(rows(batch, base), STAGES))


def test_stage_that_throws_is_named_with_worker_and_microbatch(cluster):
    x = rows(8, base=8)  # 13 is row 5: microbatch 2 of 4

    with pytest.raises(PipestageError) as error:
        cluster.client.eval("boom", inputs={"x": x}, num_microbatches=4)

    assert error.value.code == "ABORTED"
    assert error.value.reason == "STAGE_FAILED"
    assert "stage 1" in str(error.value) and "microbatch 2" in str(error.value) and "w1" in str(error.value)
    assert error.value.metadata["stage"] == "1"
    assert error.value.metadata["microbatch"] == "2"


def test_failing_call_does_not_disturb_calls_beside_it(cluster):
    stop = threading.Event()
    failures = []

    def good(number):
        client = Client(cluster.address)
        while not stop.is_set():
            try:
                assert_exact(client, batch=1 + number, microbatches=1 + number % 4, base=1000 * number)
            except BaseException as error:  # noqa: BLE001
                failures.append(error)
                return

    threads = [threading.Thread(target=good, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(30):
        with pytest.raises(PipestageError):
            cluster.client.eval("boom", inputs={"x": rows(16)}, num_microbatches=16)
    stop.set()
    for thread in threads:
        thread.join()

    assert not failures, failures[0]
    assert cluster.client.status().generation == 1


def test_killed_worker_ends_the_call_in_seconds_and_the_pipeline_forms_again(cluster):
    generation = cluster.client.status().generation
    thread, answer = call_in_background(cluster, model="sleepy", inputs={"x": rows(50)}, num_microbatches=50)
    wait_for(lambda: running(cluster) >= 1, "the call to run")

    killed_at = time.monotonic()
    cluster.workers[1].kill()
    thread.join(timeout=20)

    assert answer["at"] - killed_at < 5
    assert answer["error"].code == "UNAVAILABLE"
    assert answer["error"].reason == "WORKER_LOST"
    assert "w1" in str(answer["error"])
    with pytest.raises(PipestageError) as error:
        cluster.client.eval("digits2", inputs={"x": rows(2)})
    assert error.value.code in ("FAILED_PRECONDITION", "UNAVAILABLE")

    cluster.start_worker(1)
    cluster.wait_ready()
    assert cluster.client.status().generation > generation
    assert_exact(cluster.client)


def test_broken_pipe_kills_no_daemon(cluster):
    """What the kernel sends to whoever writes to a peer that has died."""
    for process in [cluster.coordinator, *cluster.workers.values()]:
        process.signal(signal.SIGPIPE)

    for process in [cluster.coordinator, *cluster.workers.values()]:
        assert process.child.poll() is None


def test_silent_worker_is_given_up_and_comes_back(cluster):
    thread, answer = call_in_background(cluster, model="sleepy", inputs={"x": rows(80)}, num_microbatches=80)
    wait_for(lambda: running(cluster) >= 1, "the call to run")

    cluster.workers[0].signal(signal.SIGSTOP)
    thread.join(timeout=30)
    cluster.workers[0].signal(signal.SIGCONT)

    assert answer["error"].code == "UNAVAILABLE"
    assert "w0" in str(answer["error"])
    cluster.wait_ready()
    assert_exact(cluster.client)


def test_deadline_stops_the_workers_at_the_next_action(cluster):
    started = time.monotonic()

    with pytest.raises(PipestageError) as error:
        cluster.client.eval("sleepy", inputs={"x": rows(100)}, num_microbatches=100, timeout=0.5)

    assert error.value.code == "DEADLINE_EXCEEDED"
    # The next call waits for one action at most, not for the 95 left.
    assert_exact(cluster.client)
    assert time.monotonic() - started < 3


def test_cancelled_call_frees_the_pipeline(cluster):
    future = cluster.client.eval_async("sleepy", inputs={"x": rows(100)}, num_microbatches=100)
    wait_for(lambda: running(cluster) >= 1, "the call to run")

    started = time.monotonic()
    future.cancel()

    wait_for(lambda: running(cluster) == 0, "the call to leave", timeout=3)
    assert_exact(cluster.client)
    assert time.monotonic() - started < 3


def test_calls_of_many_clients_never_mix(cluster):
    failures = []

    def client_loop(number):
        client = Client(cluster.address)
        generator = np.random.default_rng(number)
        try:
            for _ in range(40):
                assert_exact(client, batch=int(generator.integers(1, 10)), microbatches=int(generator.integers(1, 9)),
                             base=1000 * number)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=client_loop, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures, failures[0]


def test_hundreds_of_cancels_leave_no_trace(cluster):
    generation = cluster.client.status().generation
    generator = np.random.default_rng(3)

    for _ in range(200):
        future = cluster.client.eval_async("digits2", inputs={"x": rows(64)}, num_microbatches=32)
        if generator.random() < 0.5:
            time.sleep(generator.random() * 0.004)
        future.cancel()

    wait_for(lambda: running(cluster) == 0, "every call to leave", timeout=10)
    assert cluster.client.status().generation == generation
    wait_for(lambda: cluster.client.status().queue.bytes_admitted == 0, "their bytes to be given back", timeout=10)
