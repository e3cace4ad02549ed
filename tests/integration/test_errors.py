"""Every kind of bad input: refused with its code, the thing named, and what was expected;
and the next good call is exact.
"""

import grpc
import numpy as np
import pytest

from pipestage.client import PipestageError
from pipestage.client import protocol
from tests.cluster.models import digits, digits_of, rows


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, start_cluster):
    repository = tmp_path_factory.mktemp("models")
    digits(repository, 2, name="plain")
    digits(repository, 2, name="scored", loss="mse")
    digits(repository, 5, name="five")
    cluster = start_cluster(repository, 2, flags=("--max-message-bytes", str(1 << 20)))
    cluster.client.load_model("plain")
    cluster.client.load_model("scored")
    return cluster


@pytest.fixture(autouse=True)
def next_call_is_exact(cluster):
    yield
    x = rows(5)
    result = cluster.client.eval("plain", inputs={"x": x}, num_microbatches=2, return_outputs=True)
    np.testing.assert_array_equal(result.outputs["y"], digits_of(x, 2))


X = rows(4)
CASES = {
    "unknown model": (dict(model="nowhere", inputs={"x": X}), "NOT_FOUND", "nowhere"),
    "unknown version": (dict(model="plain@9", inputs={"x": X}), "NOT_FOUND", "9"),
    "model that is not loaded": (dict(model="five", inputs={"x": X}), "NOT_FOUND", "five"),
    "name that leaves the repository": (dict(model="../etc", inputs={"x": X}), "INVALID_ARGUMENT", "../etc"),
    "missing input": (dict(model="plain", inputs={}), "INVALID_ARGUMENT", '"x"'),
    "misnamed input": (dict(model="plain", inputs={"X": X}), "INVALID_ARGUMENT", '"x"'),
    "surplus input": (dict(model="plain", inputs={"x": X, "z": X}), "INVALID_ARGUMENT", '"z"'),
    "wrong dtype": (dict(model="plain", inputs={"x": X.astype(np.float32)}), "INVALID_ARGUMENT", "float64"),
    "wrong number of axes": (dict(model="plain", inputs={"x": X[:, 0]}), "INVALID_ARGUMENT", "[4]"),
    "wrong trailing size": (dict(model="plain", inputs={"x": np.ones((4, 2))}), "INVALID_ARGUMENT", "[4,2]"),
    "no rows": (dict(model="plain", inputs={"x": np.ones((0, 1))}), "INVALID_ARGUMENT", "row"),
    "rows that disagree": (
        dict(model="scored", inputs={"x": X}, targets={"target": rows(3)}), "INVALID_ARGUMENT", "3"),
    "target missing": (dict(model="scored", inputs={"x": X}), "INVALID_ARGUMENT", "target"),
    "target for a model without loss": (
        dict(model="plain", inputs={"x": X}, targets={"target": X}), "INVALID_ARGUMENT", "target"),
    "no microbatches": (dict(model="plain", inputs={"x": X}, num_microbatches=0), "INVALID_ARGUMENT", "microbatch"),
    "negative microbatches": (
        dict(model="plain", inputs={"x": X}, num_microbatches=-3), "INVALID_ARGUMENT", "-3"),
    "unknown schedule": (dict(model="plain", inputs={"x": X}, schedule="2F2B"), "INVALID_ARGUMENT", "1F1B"),
    "unknown output": (
        dict(model="plain", inputs={"x": X}, return_outputs=True, outputs=["logits"]), "INVALID_ARGUMENT", "logits"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_call_is_refused_by_name(cluster, case):
    arguments, code, mentions = CASES[case]

    with pytest.raises(PipestageError) as error:
        cluster.client.eval(**arguments)

    assert error.value.code == code, error.value
    assert mentions in str(error.value)
    assert error.value.reason


def tensor(dtype=10, shape=(4, 1), data=b"\0" * 32):
    return protocol.Tensor(dtype=dtype, shape=shape, data=data)


MALFORMED = {
    "fewer bytes than declared": tensor(data=b"\0" * 31),
    "more bytes than declared": tensor(data=b"\0" * 33),
    "terabytes declared": tensor(shape=(1 << 40, 1)),
    "product that overflows": tensor(shape=(1 << 62, 1 << 62)),
    "negative size": tensor(shape=(-4, 1)),
    "unknown dtype": tensor(dtype=99),
    "no dtype": tensor(dtype=0),
    "too many axes": tensor(shape=(1,) * 9),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_tensor_is_refused_before_memory_is_taken(cluster, case):
    request = protocol.EvalRequest(model=protocol.ModelRef(name="plain"), inputs={"x": MALFORMED[case]})
    before = cluster.client.status()
    cluster.reset_peak(None)
    peak_before = cluster.peak_bytes(None)

    with pytest.raises(grpc.RpcError) as error:
        cluster.client.stub.Eval(request)

    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert '"x"' in error.value.details()
    assert before.generation == cluster.client.status().generation
    assert cluster.peak_bytes(None) - peak_before < 4 << 20


def test_message_over_the_limit_is_refused_with_the_limit(cluster):
    request = protocol.EvalRequest(
        model=protocol.ModelRef(name="plain"), inputs={"x": tensor(shape=(200_000, 1), data=b"\0" * 1_600_000)})

    with pytest.raises(grpc.RpcError) as error:
        cluster.client.stub.Eval(request)

    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(1 << 20) in error.value.details()


def test_reply_over_the_limit_is_refused_before_it_is_computed(cluster):
    request = protocol.EvalRequest(
        model=protocol.ModelRef(name="plain"),
        inputs={"x": tensor(shape=(130_000, 1), data=b"\0" * 1_040_000)},
        options=protocol.CallOptions(num_microbatches=4, return_outputs=True))

    with pytest.raises(grpc.RpcError) as error:
        cluster.client.stub.Eval(request)

    assert error.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "StreamEval" in error.value.details()


def test_same_tensor_goes_through_the_stream(cluster):
    x = rows(400_000)

    result = cluster.client.eval("plain", inputs={"x": x}, num_microbatches=7, return_outputs=True)

    np.testing.assert_array_equal(result.outputs["y"], digits_of(x, 2))


def test_model_with_a_prime_number_of_stages_runs_on_one_worker(cluster):
    cluster.client.load_model("five")
    try:
        result = cluster.client.eval("five", inputs={"x": X}, num_microbatches=3, return_outputs=True)
        np.testing.assert_array_equal(result.outputs["y"], digits_of(X, 5))
        assert (result.ran.workers, result.ran.stages_per_worker) == (1, 5)
    finally:
        cluster.client.unload_model("five@1")


def test_more_workers_asked_for_than_there_are_says_how_many_are_missing(cluster):
    with pytest.raises(PipestageError) as error:
        cluster.client.load_model("five", num_workers=5)

    assert error.value.code == "FAILED_PRECONDITION"
    assert "5" in str(error.value) and "2" in str(error.value) and "3" in str(error.value)
