"""What a call or a question is answered with."""

import dataclasses
from typing import Any

import numpy as np

from pipestage.client import protocol, tensors


@dataclasses.dataclass(frozen=True)
class Loss:
    """A sum and a weight, divided once."""

    loss_sum: float
    weight: int
    loss: float | None  # loss_sum / weight; None if weight is 0: nothing to average
    nonfinite: int  # terms that were NaN or infinite

    @classmethod
    def from_proto(cls, message: Any) -> "Loss":
        mean = message.mean if message.HasField("mean") else None
        return cls(message.sum, message.weight, mean, message.nonfinite)


@dataclasses.dataclass(frozen=True)
class MicrobatchLoss(Loss):
    """The loss of one microbatch: rows first_row to first_row + rows."""

    microbatch: int = 0
    first_row: int = 0
    rows: int = 0

    @classmethod
    def from_proto(cls, message: Any) -> "MicrobatchLoss":
        loss = Loss.from_proto(message.loss)
        return cls(**dataclasses.asdict(loss), microbatch=message.microbatch,
                   first_row=message.first_row, rows=message.rows)


@dataclasses.dataclass(frozen=True)
class EvalResult:
    """The answer to an Eval.

    `loss`, `loss_sum` and `weight` are None if the model has no loss; `loss` alone is
    None if the weight is 0: nothing was valid. `ran`, `timings` and `timeline` are the messages of
    pipeline_service.proto.
    """

    loss: float | None
    loss_sum: float | None
    weight: int | None
    nonfinite: int
    microbatches: list[MicrobatchLoss]
    outputs: dict[str, Any]
    row_losses: np.ndarray | None
    row_weights: np.ndarray | None
    ran: Any
    timings: Any
    timeline: list[Any]


def result_of(response: protocol.EvalResponse,
              outputs: dict[str, Any]) -> EvalResult:
    """An EvalResult from the reply and the outputs that came with it."""
    has_loss = response.HasField("loss")
    loss = Loss.from_proto(response.loss)
    return EvalResult(
        loss=loss.loss if has_loss else None,
        loss_sum=loss.loss_sum if has_loss else None,
        weight=loss.weight if has_loss else None,
        nonfinite=loss.nonfinite,
        microbatches=[MicrobatchLoss.from_proto(m)
                      for m in response.microbatches],
        outputs=outputs,
        row_losses=_optional(response, "row_losses"),
        row_weights=_optional(response, "row_weights"),
        ran=response.ran,
        timings=response.timings,
        timeline=list(response.timeline))


def _optional(response: protocol.EvalResponse, field: str) -> np.ndarray | None:
    if not response.HasField(field):
        return None
    return tensors.decode(getattr(response, field))


class _Named:
    """A message whose enums read as their names."""

    def __init__(self, message: Any, **names: str):
        self.message = message
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return self._names.get(name) or getattr(self.message, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message})"


class Model(_Named):
    """`Model` of model_service.proto; `state` is text such as "SERVING"."""

    def __init__(self, message: protocol.Model):
        super().__init__(message,
                         state=protocol.ModelState.Name(message.state))


class Status(_Named):
    """`Status` of status_service.proto; `state` is text such as "READY"."""

    def __init__(self, message: protocol.Status):
        super().__init__(message,
                         state=protocol.PipelineState.Name(message.state))
