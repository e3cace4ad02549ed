"""Pipestage from Python: export models into packages, evaluate them by RPC.

    from pipestage import Client, export_pipeline

The names below are imported when they are first used, so that the client works
without torch and the exporter without grpc.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Client": "pipestage.client",
    "EvalResult": "pipestage.client",
    "Loss": "pipestage.client",
    "PipestageError": "pipestage.client",
    "RawTensor": "pipestage.client",
    "CrossEntropy": "pipestage.export",
    "ExportError": "pipestage.export",
    "LossProgram": "pipestage.export",
    "MeanSquaredError": "pipestage.export",
    "PipelineSpec": "pipestage.export",
    "Size": "pipestage.export",
    "export_module": "pipestage.export",
    "export_pipeline": "pipestage.export",
}

__all__ = sorted([*_HOME, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'pipestage' has no attribute '{name}'")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
