"""The client."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import grpc

from pipestage.client import protocol
from pipestage.client.calls import EvalCall
from pipestage.client.errors import raise_from
from pipestage.client.results import EvalResult, Model, Status

# Replies may be as large as the server sends them: it has its own limit.
_OPTIONS = (("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1))


class Client:
    """Evaluates models on a Pipestage service.

        client = Client("127.0.0.1:7070")
        result = client.eval("byte-lm", inputs={"tokens": x}, targets={"targets": y})
        print(result.loss, result.weight)

    Models are named "name" (the newest loaded version) or "name@version".
    Thread-safe. Every method raises PipestageError if the service refuses or fails.
    """

    def __init__(self, address: str = "127.0.0.1:7070",
                 credentials: grpc.ChannelCredentials | None = None):
        """Connects when first used; with `credentials`, over TLS."""
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        else:
            self._channel = grpc.secure_channel(address, credentials,
                                                options=_OPTIONS)
        self.stub = protocol.PipelineServiceStub(self._channel)
        self._models = protocol.ModelServiceStub(self._channel)
        self._status = protocol.StatusServiceStub(self._channel)

    def eval(self, model: str, *, inputs: Mapping[str, Any],
             timeout: float | None = None, **options: Any) -> EvalResult:
        """Runs `model` forward on `inputs`, with its loss if it has one.

        Args:
          model: "name" or "name@version".
          inputs: arrays by name: numpy, torch, or what numpy makes arrays of.
          timeout: in seconds.
          **options: as of `eval_async`.
        """
        return self.eval_async(model, inputs=inputs, timeout=timeout,
                               **options).result()

    def eval_async(self, model: str, *, inputs: Mapping[str, Any],
                   targets: Mapping[str, Any] | None = None,
                   num_microbatches: int | None = None,
                   microbatch_rows: int | None = None,
                   schedule: str = "", return_outputs: bool = False,
                   outputs: Sequence[str] = (),
                   return_row_losses: bool = False,
                   return_timeline: bool = False,
                   timeout: float | None = None) -> EvalCall:
        """Starts an Eval; its result() waits and its cancel() stops it.

        Args:
          model: "name" or "name@version".
          inputs: arrays by name.
          targets: of the loss, by name.
          num_microbatches: how many the batch is split into. None = the model's default.
          microbatch_rows: or how many rows each has.
          schedule: "1F1B", "GPipe" ... Empty = the model's default.
          return_outputs: whether outputs come back.
          outputs: which; empty = all.
          return_row_losses: loss sum and weight of every row.
          return_timeline: when each worker ran what.
          timeout: in seconds.
        """
        if num_microbatches is not None and microbatch_rows is not None:
            raise ValueError("give num_microbatches or microbatch_rows, not both")
        call_options = protocol.CallOptions(
            schedule=schedule, return_outputs=return_outputs, outputs=outputs,
            return_row_losses=return_row_losses, return_timeline=return_timeline)
        if num_microbatches is not None:
            call_options.num_microbatches = num_microbatches
        if microbatch_rows is not None:
            call_options.microbatch_rows = microbatch_rows
        return EvalCall(self.stub, _model_ref(model), call_options, inputs,
                        targets or {}, timeout)

    def models(self) -> list[Model]:
        """Every version in the server's repository, and what state it is in."""
        models: list[Model] = []
        request = protocol.ListModelsRequest()
        with _errors():
            while True:
                page = self._models.ListModels(request)
                models.extend(Model(m) for m in page.models)
                if not page.next_page_token:
                    return models
                request.page_token = page.next_page_token

    def model(self, model: str) -> Model:
        """Contract and state of one model."""
        with _errors():
            return Model(self._models.GetModel(
                protocol.GetModelRequest(model=_model_ref(model))))

    def load_model(self, model: str, num_workers: int = 0,
                   timeout: float | None = None) -> Model:
        """Loads a model; without a version, the newest in the repository.

        num_workers 0 = the most that divide the model's stages.
        """
        request = protocol.LoadModelRequest(model=_model_ref(model),
                                            num_workers=num_workers)
        with _errors():
            return Model(self._models.LoadModel(request, timeout=timeout))

    def unload_model(self, model: str, timeout: float | None = None) -> None:
        """Stops serving "name@version" once the calls that use it have ended."""
        request = protocol.UnloadModelRequest(model=_model_ref(model))
        with _errors():
            self._models.UnloadModel(request, timeout=timeout)

    def status(self, timeout: float | None = 10.0) -> Status:
        """What the service is doing."""
        with _errors():
            return Status(self._status.GetStatus(protocol.GetStatusRequest(),
                                                 timeout=timeout))

    def close(self) -> None:
        """Ends all calls."""
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _model_ref(model: str) -> protocol.ModelRef:
    name, _, version = model.partition("@")
    return protocol.ModelRef(name=name, version=version)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        raise_from(error)
