"""One Eval: as a single message each way, or as a stream of chunks."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc

from pipestage.client import protocol, tensors
from pipestage.client.errors import PipestageError, from_rpc
from pipestage.client.results import EvalResult, result_of

# Requests up to this size go in one message; gRPC's own limit is 4 MiB, and servers
# may set a lower one.
UNARY_BYTES = 1 << 20

CHUNK_BYTES = 512 << 10

# What an answer says that does not fit into one message.
_TOO_LARGE = "MESSAGE_TOO_LARGE"


class EvalCall:
    """An Eval on its way. cancel() may come from any thread.

    Large tensors are sent from the caller's memory, which must not change before
    result() has returned.
    """

    def __init__(self, stub: protocol.PipelineServiceStub,
                 model: protocol.ModelRef, options: protocol.CallOptions,
                 inputs: Mapping[str, Any], targets: Mapping[str, Any],
                 timeout: float | None):
        self._stub = stub
        self._model = model
        self._options = options
        self._tensors = [
            (role, name, tensors.encode(name, value))
            for role, values in ((protocol.INPUT, inputs),
                                 (protocol.TARGET, targets))
            for name, value in values.items()
        ]
        self._timeout = timeout
        self._cancelled = False
        size = sum(t.nbytes for _, _, t in self._tensors)
        self._streamed = size > UNARY_BYTES
        self._rpc = self._start_stream() if self._streamed else self._start_unary()

    def cancel(self) -> None:
        """Stops the call: its workers stop at the next action."""
        self._cancelled = True
        self._rpc.cancel()

    def result(self) -> EvalResult:
        """Waits for the answer.

        Raises:
          PipestageError: the call failed, or was cancelled.
        """
        try:
            if not self._streamed:
                try:
                    return self._unary_result()
                except grpc.RpcError as error:
                    if not self._is_for_stream(error):
                        raise
                # Nothing was computed, and Eval is pure: ask again in chunks.
                self._streamed = True
                self._rpc = self._start_stream()
                if self._cancelled:
                    self._rpc.cancel()
            return _read_events(self._rpc)
        except grpc.FutureCancelledError as error:
            raise PipestageError("CANCELLED", "the call was cancelled") from error
        except grpc.RpcError as error:
            raise from_rpc(error) from error
        finally:
            # Also when the caller is interrupted: nobody waits for the rest.
            with contextlib.suppress(Exception):
                self._rpc.cancel()

    def _is_for_stream(self, error: grpc.RpcError) -> bool:
        if self._cancelled or error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
            return False
        return from_rpc(error).reason == _TOO_LARGE

    def _start_unary(self) -> Any:
        request = protocol.EvalRequest(model=self._model, options=self._options)
        for role, name, tensor in self._tensors:
            into = request.inputs if role == protocol.INPUT else request.targets
            into[name].CopyFrom(tensor.to_proto())
        return self._stub.Eval.future(request, timeout=self._timeout)

    def _unary_result(self) -> EvalResult:
        response = self._rpc.result()
        outputs = {n: tensors.decode(t) for n, t in response.outputs.items()}
        return result_of(response, outputs)

    def _start_stream(self) -> Any:
        return self._stub.StreamEval(self._chunks(), timeout=self._timeout)

    def _chunks(self) -> Iterator[protocol.EvalChunk]:
        header = protocol.EvalHeader(
            model=self._model, options=self._options,
            tensors=[protocol.TensorAnnouncement(role=role, name=name,
                                                 spec=tensor.spec())
                     for role, name, tensor in self._tensors])
        yield protocol.EvalChunk(header=header)
        for index, (_, _, tensor) in enumerate(self._tensors):
            for start in range(0, tensor.nbytes, CHUNK_BYTES):
                yield protocol.EvalChunk(chunk=protocol.TensorChunk(
                    tensor=index,
                    data=bytes(tensor.data[start:start + CHUNK_BYTES])))


def _read_events(events: Iterator[protocol.EvalEvent]) -> EvalResult:
    announced: Sequence[protocol.TensorAnnouncement] = ()
    received: list[bytearray] = []
    for event in events:
        kind = event.WhichOneof("kind")
        if kind == "outputs":
            announced = event.outputs.tensors
            received = [bytearray() for _ in announced]
        elif kind == "chunk":
            received[event.chunk.tensor].extend(event.chunk.data)
        elif kind == "summary":
            outputs = {
                a.name: tensors.from_bytes(a.spec.dtype, tuple(a.spec.shape), data)
                for a, data in zip(announced, received)
            }
            return result_of(event.summary, outputs)
    raise PipestageError("INTERNAL", "the stream ended without a summary")
