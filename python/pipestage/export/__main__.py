"""python -m pipestage.export module:function --name N --version V --repository DIR"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from pipestage.export import ExportError, PipelineSpec, export_spec


def _spec_from(place: str) -> PipelineSpec:
    module_name, separator, function_name = place.partition(":")
    if not separator:
        raise ExportError(f"'{place}' is not of the form module:function")
    # Like `python -m`: modules in the current folder are found.
    sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise ExportError(f"cannot find {place}: {error}") from error
    spec = function()
    if not isinstance(spec, PipelineSpec):
        raise ExportError(
            f"{place} returned a {type(spec).__name__}, not a PipelineSpec")
    return spec


def main(argv: Sequence[str] | None = None) -> int:
    """Exports what the function describes; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m pipestage.export",
        description="Exports a model into a package that Pipestage serves.")
    parser.add_argument("function", metavar="MODULE:FUNCTION",
                        help="returns a pipestage.PipelineSpec")
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", default="1")
    parser.add_argument("--repository", default="models")
    arguments = parser.parse_args(argv)
    try:
        path = export_spec(_spec_from(arguments.function), arguments.repository,
                           arguments.name, arguments.version)
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
