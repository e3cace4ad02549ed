"""What the service answers when it refuses or fails."""

from collections.abc import Mapping
from typing import NoReturn

import grpc

from pipestage.client import protocol

_DETAILS = "grpc-status-details-bin"
_ERROR_INFO = "ErrorInfo"


class PipestageError(Exception):
    """A call that failed.

    Attributes:
      code: gRPC's name of what the caller can do: "INVALID_ARGUMENT" ...
      reason: why, for programs: "STAGE_FAILED", "WORKER_LOST" ... or "".
      metadata: where, as far as known: worker, stage, microbatch, expected, actual.
    """

    def __init__(self, code: str, message: str, reason: str = "",
                 metadata: Mapping[str, str] | None = None):
        super().__init__(f"{code}: {message}" + (f" [{reason}]" if reason else ""))
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = dict(metadata or {})


def from_rpc(error: grpc.RpcError) -> PipestageError:
    """The error of a failed RPC, with its ErrorInfo if it carries one."""
    code = error.code().name
    message = error.details() or ""
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS:
            info = _error_info(value)
            if info is not None:
                return PipestageError(code, message, info.reason,
                                      info.metadata)
    return PipestageError(code, message)


def raise_from(error: grpc.RpcError) -> NoReturn:
    """Raises the PipestageError of a failed RPC."""
    raise from_rpc(error) from error


def _error_info(details: bytes) -> protocol.ErrorInfo | None:
    try:
        status = protocol.RpcStatus.FromString(details)
        for detail in status.details:
            # "type.googleapis.com/google.rpc.ErrorInfo"
            if detail.type_url.rpartition("/")[2].endswith(_ERROR_INFO):
                return protocol.ErrorInfo.FromString(detail.value)
    except Exception:  # Details of another make do not hide the error itself.
        return None
    return None
