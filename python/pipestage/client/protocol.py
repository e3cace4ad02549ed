"""The messages and stubs of the service, as generated from proto/."""

from pipestage._generated.error_pb2 import ErrorInfo, RpcStatus
from pipestage._generated.model_service_pb2 import (
    GetModelRequest,
    ListModelsRequest,
    LoadModelRequest,
    Model,
    ModelState,
    UnloadModelRequest,
)
from pipestage._generated.model_service_pb2_grpc import ModelServiceStub
from pipestage._generated.pipeline_service_pb2 import (
    INPUT,
    OUTPUT,
    TARGET,
    CallOptions,
    EvalChunk,
    EvalEvent,
    EvalHeader,
    EvalRequest,
    EvalResponse,
    ModelRef,
    TensorAnnouncement,
    TensorChunk,
)
from pipestage._generated.pipeline_service_pb2_grpc import PipelineServiceStub
from pipestage._generated.status_service_pb2 import (
    GetStatusRequest,
    PipelineState,
    Status,
)
from pipestage._generated.status_service_pb2_grpc import StatusServiceStub
from pipestage._generated.tensor_pb2 import DType, Tensor, TensorSpec

__all__ = [
    "INPUT",
    "OUTPUT",
    "TARGET",
    "CallOptions",
    "DType",
    "ErrorInfo",
    "EvalChunk",
    "EvalEvent",
    "EvalHeader",
    "EvalRequest",
    "EvalResponse",
    "GetModelRequest",
    "GetStatusRequest",
    "ListModelsRequest",
    "LoadModelRequest",
    "Model",
    "ModelRef",
    "ModelServiceStub",
    "ModelState",
    "PipelineServiceStub",
    "PipelineState",
    "RpcStatus",
    "Status",
    "StatusServiceStub",
    "Tensor",
    "TensorAnnouncement",
    "TensorChunk",
    "TensorSpec",
    "UnloadModelRequest",
]
