"""What a call costs does not grow with the number of microbatches."""

import numpy as np
import pytest

from examples.closed_form.write import write_closed_form
from tests.cluster.models import digits, rows

WIDE = 65536  # float64: 512 KiB a row


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, start_cluster):
    repository = tmp_path_factory.mktemp("models")
    digits(repository, 2, loss="mse")
    write_closed_form(repository, "wide", "1", 2, module="affine", width=WIDE,
                      params=[{"scale": 1.0, "bias": 1.0}] * 2)
    cluster = start_cluster(repository, 2, worker_flags=("--receive-window", "4", "--send-window", "4"))
    cluster.client.load_model("digits2")
    cluster.client.load_model("wide")
    return cluster


def traffic_of(cluster, call):
    before = cluster.client.status().traffic
    call()
    after = cluster.client.status().traffic
    return {
        name: getattr(after, name) - getattr(before, name)
        for name in ("control_messages_sent", "control_messages_received", "control_bytes_sent",
                     "control_bytes_received")
    }


def test_control_messages_and_bytes_are_independent_of_the_number_of_microbatches(cluster):
    def call(microbatches):
        return lambda: cluster.client.eval(
            "digits2", inputs={"x": rows(256)}, targets={"target": rows(256)}, num_microbatches=microbatches)

    for microbatches in (1, 4, 64, 256):
        call(microbatches)()  # installs the plan

    counts = {m: traffic_of(cluster, call(m)) for m in (1, 4, 64, 256)}

    for microbatches, count in counts.items():
        assert count["control_messages_sent"] == 2, counts  # one Run a worker
        assert count["control_messages_received"] == 2, counts  # one CallDone a worker
        # Varints of ids and counts differ by a byte here and there; nothing grows.
        assert abs(count["control_bytes_sent"] - counts[1]["control_bytes_sent"]) <= 16, counts
        assert abs(count["control_bytes_received"] - counts[1]["control_bytes_received"]) <= 16, counts


def peak_growth_from_4_to_512_microbatches(cluster):
    """By how many bytes each worker's peak in a call with 256 MiB of inputs is above that in
    one with 2 MiB. Calls before have filled all windows once (feeds: 8 MiB, and what gRPC
    buffers): the process keeps that memory."""

    def call(microbatches):
        x = np.ones((microbatches, WIDE))
        for index in (0, 1):
            cluster.reset_peak(index)
        cluster.client.eval("wide", inputs={"x": x}, num_microbatches=microbatches, return_outputs=False)
        return [cluster.peak_bytes(index) for index in (0, 1)]

    for _ in range(3):
        call(64)
    small = call(4)
    large = call(512)
    return [after - before for before, after in zip(small, large)]


def test_peak_memory_is_flat_from_4_to_512_microbatches(cluster):
    inputs, activations = peak_growth_from_4_to_512_microbatches(cluster)

    assert inputs < 16 << 20
    assert activations < 16 << 20


def test_failed_and_good_calls_leave_no_memory_behind(cluster):
    def round_of_calls():
        for _ in range(150):
            cluster.client.eval("wide", inputs={"x": np.ones((2, WIDE))}, num_microbatches=2)
        return [cluster.resident_bytes(index) for index in (0, 1)]

    round_of_calls()
    first = round_of_calls()
    second = round_of_calls()

    for before, after in zip(first, second):
        assert after - before < 8 << 20, (first, second)
