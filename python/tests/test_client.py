"""The client against a real gRPC server."""

import ast
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from echo_service import EchoServer

from pipestage.client import Client, PipestageError, RawTensor

PACKAGE = Path(__file__).parents[1] / "pipestage"
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32",
          "float64")


@pytest.fixture
def server():
    server = EchoServer()
    yield server
    server.stop()


@pytest.fixture
def client(server):
    with Client(server.address) as client:
        yield client


def echo(client, x):
    return client.eval("scale", inputs={"x": x}, return_outputs=True).outputs["y"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_arrays_of_every_dtype_and_rank_come_back_equal(client, dtype, shape):
    x = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)

    y = echo(client, x)

    assert y.dtype == x.dtype
    assert y.shape == x.shape
    np.testing.assert_array_equal(y, x)


def test_output_arrays_belong_to_the_caller_and_can_be_written(client):
    y = echo(client, np.ones(3))

    y[0] = 7

    assert y[0] == 7


def test_arrays_that_are_not_contiguous_or_big_endian_are_sent_as_they_read(client):
    x = np.arange(12).reshape(3, 4)[:, ::2].T.astype(">i4")

    np.testing.assert_array_equal(echo(client, x), x)


def test_lists_and_torch_tensors_are_inputs(client):
    torch = pytest.importorskip("torch")

    np.testing.assert_array_equal(echo(client, [[1.5], [2.5]]), [[1.5], [2.5]])
    transposed = torch.arange(6).reshape(2, 3).T.requires_grad_(False)
    np.testing.assert_array_equal(echo(client, transposed), transposed.numpy())


def test_bfloat16_goes_both_ways_as_a_torch_tensor(client):
    torch = pytest.importorskip("torch")
    x = torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16)

    y = echo(client, x)

    y = torch.from_numpy(y.astype("float32")) if isinstance(y, np.ndarray) else y
    assert torch.equal(y.float(), x.float())


def test_raw_tensors_are_sent_as_they_are(client):
    raw = RawTensor("int16", (2,), b"\x01\x00\x02\x00")

    np.testing.assert_array_equal(echo(client, raw), np.array([1, 2], np.int16))


def test_elements_without_counterpart_are_refused_by_name(client):
    with pytest.raises(TypeError, match="'x' has elements of complex64"):
        client.eval("scale", inputs={"x": np.zeros(2, np.complex64)})


def test_loss_is_sum_weight_and_mean(client):
    result = client.eval("scale", inputs={"x": np.array([[1.0], [4.0]])},
                         targets={"target": np.array([[0.0], [1.0]])},
                         return_row_losses=True)

    assert (result.loss_sum, result.weight, result.loss) == (10.0, 2, 5.0)
    assert [(m.rows, m.loss_sum) for m in result.microbatches] == [(2, 10.0)]
    np.testing.assert_array_equal(result.row_losses, [1.0, 9.0])
    assert result.outputs == {}
    assert result.ran.version == "1"
    assert result.timings.total_s == 0.5


def test_weight_zero_has_no_mean(client):
    result = client.eval("scale", inputs={"x": np.ones((2, 1))},
                         targets={"target": np.full((2, 1), np.nan)})

    assert result.weight == 0
    assert result.loss is None


def test_model_without_loss_has_none(client):
    result = client.eval("scale", inputs={"x": np.ones((2, 1))})

    assert result.loss is None and result.loss_sum is None and result.weight is None
    assert result.row_losses is None


def test_options_are_passed_on_and_unset_ones_left_unset(client, server):
    client.eval("scale@3", inputs={"x": [1.0]})
    assert server.pipeline.last_options.WhichOneof("split") is None
    assert server.pipeline.last_model.version == "3"

    client.eval("scale", inputs={"x": [1.0]}, num_microbatches=0, schedule="GPipe",
                return_timeline=True)
    options = server.pipeline.last_options
    assert options.WhichOneof("split") == "num_microbatches"
    assert (options.schedule, options.return_timeline) == ("GPipe", True)

    client.eval("scale", inputs={"x": [1.0]}, microbatch_rows=5)
    assert server.pipeline.last_options.microbatch_rows == 5


def test_both_ways_to_split_are_refused(client):
    with pytest.raises(ValueError, match="not both"):
        client.eval("scale", inputs={"x": [1.0]}, num_microbatches=1,
                    microbatch_rows=1)


def test_large_request_is_streamed_in_chunks(client, server):
    x = np.arange(500_000, dtype=np.float64)

    y = echo(client, x)

    np.testing.assert_array_equal(y, x)
    assert (server.pipeline.unary_calls, server.pipeline.stream_calls) == (0, 1)
    assert max(server.pipeline.chunk_sizes) <= 1 << 20
    assert sum(server.pipeline.chunk_sizes) == x.nbytes


def test_small_request_is_one_message(client, server):
    echo(client, np.ones(1000))

    assert (server.pipeline.unary_calls, server.pipeline.stream_calls) == (1, 0)


def test_reply_over_the_servers_limit_is_asked_for_again_as_a_stream():
    server = EchoServer(max_message_bytes=5000)
    try:
        with Client(server.address) as client:
            x = np.arange(620, dtype=np.float64)
            np.testing.assert_array_equal(echo(client, x), x)
            assert server.pipeline.stream_calls == 1
    finally:
        server.stop()


def test_error_carries_code_reason_and_metadata(client):
    with pytest.raises(PipestageError, match="no model 'nowhere'") as error:
        client.eval("nowhere", inputs={"x": [1.0]})

    assert error.value.code == "NOT_FOUND"
    assert error.value.reason == "MODEL_NOT_FOUND"
    assert error.value.metadata == {"model": "nowhere"}


def test_error_of_a_stream_carries_the_same(client):
    with pytest.raises(PipestageError) as error:
        client.eval("nowhere", inputs={"x": np.ones(300_000)})

    assert (error.value.code, error.value.reason) == ("NOT_FOUND", "MODEL_NOT_FOUND")


def test_service_that_is_not_there_is_an_error_without_reason():
    with Client("127.0.0.1:1") as client, pytest.raises(PipestageError) as error:
        client.status()

    assert (error.value.code, error.value.reason) == ("UNAVAILABLE", "")


def test_deadline_is_an_error(client, server):
    with pytest.raises(PipestageError) as error:
        client.eval("stuck", inputs={"x": [1.0]}, timeout=0.2)

    assert error.value.code == "DEADLINE_EXCEEDED"
    assert server.pipeline.cancelled.wait(10)


@pytest.mark.parametrize("size", [1, 300_000])
def test_cancel_reaches_the_service(client, server, size):
    call = client.eval_async("stuck", inputs={"x": np.ones(size)})
    assert server.pipeline.entered.wait(10)

    canceller = threading.Thread(target=call.cancel)
    canceller.start()

    with pytest.raises(PipestageError) as error:
        call.result()
    canceller.join()
    assert error.value.code == "CANCELLED"
    assert server.pipeline.cancelled.wait(10)


def test_models_of_all_pages_are_listed(client):
    models = client.models()

    assert [m.name for m in models] == ["m0", "m1", "m2", "m3", "m4"]
    assert models[0].state == "AVAILABLE"


def test_models_are_loaded_and_unloaded_by_name_and_version(client, server):
    model = client.load_model("m1", num_workers=2)
    client.unload_model("m1@7")

    assert (model.version, model.state) == ("7", "SERVING")
    assert client.model("m1").state == "SERVING"
    assert server.models.loaded == [("m1", "", 2), ("m1", "7", -1)]


def test_refused_load_says_how_many_workers_are_missing(client):
    with pytest.raises(PipestageError) as error:
        client.load_model("m1", num_workers=5)

    assert error.value.code == "FAILED_PRECONDITION"
    assert error.value.metadata["missing"] == "3"


def test_status_reads_as_text_and_numbers(client):
    status = client.status()

    assert status.state == "READY"
    assert (status.generation, status.queue.calls_running) == (3, 2)
    assert list(status.serving) == ["scale@1"]


def test_client_works_without_torch():
    code = "import sys; sys.modules['torch'] = None; import pipestage; pipestage.Client"

    subprocess.run([sys.executable, "-c", code], check=True,
                   env={"PYTHONPATH": str(PACKAGE.parent), "PATH": ""})


def test_exporter_imports_nothing_of_the_client():
    for source in (PACKAGE / "export").glob("*.py"):
        for node in ast.walk(ast.parse(source.read_text())):
            names = [a.name for a in getattr(node, "names", ())]
            names.append(getattr(node, "module", None) or "")
            for name in names:
                assert not name.startswith(("grpc", "pipestage.client",
                                            "pipestage._generated")), source
