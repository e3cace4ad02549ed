"""A real gRPC service for tests: one model "scale", y = factor * x, computed by numpy.

It keeps to the protocol of pipeline_service.proto: limits, errors with ErrorInfo,
chunked tensors, outputs only on request.
"""

import threading
from collections.abc import Iterator
from concurrent import futures

import grpc
import numpy as np
from google.protobuf import any_pb2

from pipestage._generated import (
    error_pb2,
    model_service_pb2 as models,
    model_service_pb2_grpc,
    pipeline_service_pb2 as pipeline,
    pipeline_service_pb2_grpc,
    status_service_pb2 as status,
    status_service_pb2_grpc,
    tensor_pb2,
)
from pipestage.names import DTYPES


def abort(context: grpc.ServicerContext, code: grpc.StatusCode, message: str,
          reason: str, **metadata: str) -> None:
    """Ends the call the way the coordinator does: status, ErrorInfo in the trailer."""
    info = error_pb2.ErrorInfo(reason=reason, domain="pipestage", metadata=metadata)
    detail = any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo",
                         value=info.SerializeToString())
    rich = error_pb2.RpcStatus(code=code.value[0], message=message, details=[detail])
    context.set_trailing_metadata(
        (("grpc-status-details-bin", rich.SerializeToString()),))
    context.abort(code, message)


class PipelineService(pipeline_service_pb2_grpc.PipelineServiceServicer):
    """Evaluates; remembers what it was asked."""

    def __init__(self, max_message_bytes: int):
        self.max_message_bytes = max_message_bytes
        self.unary_calls = 0
        self.stream_calls = 0
        self.chunk_sizes: list[int] = []
        self.last_options: pipeline.CallOptions | None = None
        self.last_model: pipeline.ModelRef | None = None
        # For the model "stuck": set when a call has come, and when it was cancelled.
        self.entered = threading.Event()
        self.cancelled = threading.Event()

    def Eval(self, request, context):
        self.unary_calls += 1
        if request.ByteSize() > self.max_message_bytes:
            self._refuse_size(context, "the request")
        response = self._run(request.model, request.options, dict(request.inputs),
                             dict(request.targets), context)
        if response.ByteSize() > self.max_message_bytes:
            self._refuse_size(context, "the reply")
        return response

    def StreamEval(self, chunks, context):
        self.stream_calls += 1
        header, tensors = self._gather(chunks)
        named = {pipeline.INPUT: {}, pipeline.TARGET: {}}
        for announced, data in zip(header.tensors, tensors):
            named[announced.role][announced.name] = tensor_pb2.Tensor(
                dtype=announced.spec.dtype, shape=announced.spec.shape,
                data=bytes(data))
        response = self._run(header.model, header.options, named[pipeline.INPUT],
                             named[pipeline.TARGET], context)
        yield from self._events(response)

    def _gather(self, chunks) -> tuple[pipeline.EvalHeader, list[bytearray]]:
        header = next(chunks).header
        tensors = [bytearray() for _ in header.tensors]
        for chunk in chunks:
            assert chunk.WhichOneof("kind") == "chunk"
            tensors[chunk.chunk.tensor] += chunk.chunk.data
            self.chunk_sizes.append(len(chunk.chunk.data))
        return header, tensors

    def _events(self, response) -> Iterator[pipeline.EvalEvent]:
        for loss in response.microbatches:
            yield pipeline.EvalEvent(microbatch=loss)
        outputs = dict(response.outputs)
        yield pipeline.EvalEvent(outputs=pipeline.OutputHeader(tensors=[
            pipeline.TensorAnnouncement(
                role=pipeline.OUTPUT, name=name,
                spec=tensor_pb2.TensorSpec(dtype=t.dtype, shape=t.shape))
            for name, t in outputs.items()]))
        for index, tensor in enumerate(outputs.values()):
            for start in range(0, len(tensor.data), 65536):
                yield pipeline.EvalEvent(chunk=pipeline.TensorChunk(
                    tensor=index, data=tensor.data[start:start + 65536]))
        del response.outputs["y"]
        yield pipeline.EvalEvent(summary=response)

    def _refuse_size(self, context, what: str) -> None:
        abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED,
              f"{what} is over {self.max_message_bytes} bytes: use StreamEval",
              "MESSAGE_TOO_LARGE")

    def _run(self, model, options, inputs, targets, context):
        self.last_options, self.last_model = options, model
        if model.name == "stuck":
            context.add_callback(self.cancelled.set)
            self.entered.set()
            self.cancelled.wait(20)
            context.abort(grpc.StatusCode.CANCELLED, "cancelled")
        if model.name != "scale":
            abort(context, grpc.StatusCode.NOT_FOUND,
                  f"no model '{model.name}'", "MODEL_NOT_FOUND", model=model.name)
        x = inputs["x"]
        response = pipeline.EvalResponse(
            ran=pipeline.Ran(model="scale", version="1", num_microbatches=1),
            timings=pipeline.Timings(total_s=0.5))
        if x.dtype == tensor_pb2.BFLOAT16 or not targets:
            response.outputs["y"].CopyFrom(x)
        else:
            self._score(x, targets["target"], options, response)
        if not options.return_outputs:
            del response.outputs["y"]
        return response

    def _score(self, x, target, options, response) -> None:
        """Mean squared error, with weight 0 for targets that are NaN."""
        array, wanted = (np.frombuffer(t.data, DTYPES[t.dtype - 1]).reshape(t.shape)
                         for t in (x, target))
        response.outputs["y"].CopyFrom(x)
        valid = ~np.isnan(wanted)
        errors = np.where(valid, (array - np.nan_to_num(wanted)) ** 2, 0.0)
        loss = pipeline.Loss(sum=errors.sum(), weight=int(valid.sum()))
        if loss.weight:
            loss.mean = loss.sum / loss.weight
        response.loss.CopyFrom(loss)
        response.microbatches.add(rows=len(array)).loss.CopyFrom(loss)
        if options.return_row_losses:
            sums = errors.reshape(len(array), -1).sum(1)
            response.row_losses.CopyFrom(tensor_pb2.Tensor(
                dtype=tensor_pb2.FLOAT64, shape=sums.shape, data=sums.tobytes()))


class ModelService(model_service_pb2_grpc.ModelServiceServicer):
    """Five models, two a page."""

    def __init__(self) -> None:
        self.loaded: list[tuple[str, str, int]] = []

    def ListModels(self, request, context):
        first = int(request.page_token or 0)
        after = min(first + 2, 5)
        page = [models.Model(name=f"m{i}", version="1", state=models.AVAILABLE)
                for i in range(first, after)]
        return models.ListModelsResponse(
            models=page, next_page_token=str(after) if after < 5 else "")

    def GetModel(self, request, context):
        return models.Model(name=request.model.name, version="7",
                            state=models.SERVING)

    def LoadModel(self, request, context):
        if request.num_workers > 2:
            abort(context, grpc.StatusCode.FAILED_PRECONDITION,
                  f"{request.num_workers} workers asked for, 2 there",
                  "WORKERS_MISSING", missing=str(request.num_workers - 2))
        self.loaded.append((request.model.name, request.model.version,
                            request.num_workers))
        return self.GetModel(request, context)

    def UnloadModel(self, request, context):
        self.loaded.append((request.model.name, request.model.version, -1))
        return models.UnloadModelResponse()


class StatusService(status_service_pb2_grpc.StatusServiceServicer):
    """Always ready."""

    def GetStatus(self, request, context):
        return status.Status(state=status.READY, generation=3,
                             serving=["scale@1"],
                             queue=status.QueueStatus(calls_running=2))


class EchoServer:
    """The services on a free port of this machine."""

    def __init__(self, max_message_bytes: int = 4 << 20):
        self.pipeline = PipelineService(max_message_bytes)
        self.models = ModelService()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=4),
            options=(("grpc.max_receive_message_length", max_message_bytes + 1000),
                     ("grpc.max_send_message_length", -1)))
        pipeline_service_pb2_grpc.add_PipelineServiceServicer_to_server(
            self.pipeline, self._server)
        model_service_pb2_grpc.add_ModelServiceServicer_to_server(
            self.models, self._server)
        status_service_pb2_grpc.add_StatusServiceServicer_to_server(
            StatusService(), self._server)
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def stop(self) -> None:
        self._server.stop(grace=0).wait()
