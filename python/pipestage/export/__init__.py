"""Makes a model package from PyTorch modules: see docs/formats.md."""

from pipestage.export.errors import ExportError
from pipestage.export.pipeline import (
    export_module,
    export_pipeline,
    export_spec,
)
from pipestage.export.spec import (
    CrossEntropy,
    LossProgram,
    MeanSquaredError,
    PipelineSpec,
    Size,
)

__all__ = [
    "CrossEntropy",
    "ExportError",
    "LossProgram",
    "MeanSquaredError",
    "PipelineSpec",
    "Size",
    "export_module",
    "export_pipeline",
    "export_spec",
]
