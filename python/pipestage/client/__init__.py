"""A thin client of a Pipestage service."""

from pipestage.client.calls import EvalCall
from pipestage.client.client import Client
from pipestage.client.errors import PipestageError
from pipestage.client.results import (
    EvalResult,
    Loss,
    MicrobatchLoss,
    Model,
    Status,
)
from pipestage.client.tensors import RawTensor

__all__ = [
    "Client",
    "EvalCall",
    "EvalResult",
    "Loss",
    "MicrobatchLoss",
    "Model",
    "PipestageError",
    "RawTensor",
    "Status",
]
