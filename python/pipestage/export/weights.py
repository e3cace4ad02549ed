"""A stage's weights as a safetensors file."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from pipestage.export.errors import ExportError


def _view(tensor: torch.Tensor) -> tuple:
    return (tensor.untyped_storage().data_ptr(), tensor.storage_offset(),
            tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)


def write_weights(state: Mapping[str, torch.Tensor], path: Path) -> None:
    """Writes parameters and buffers; a tensor with several names is written once."""
    written: dict[tuple, str] = {}
    tensors: dict[str, torch.Tensor] = {}
    metadata: dict[str, str] = {}
    for name in sorted(state):
        tensor = state[name].detach()
        first = written.setdefault(_view(tensor), name)
        if first == name or tensor.numel() == 0:
            tensors[name] = tensor.contiguous().clone()
        else:
            metadata[f"alias:{name}"] = first
    save_file(tensors, path, metadata or None)
    # save_file makes it its owner's alone; workers may run as somebody else.
    path.chmod(0o644)


def check_shared(stages: Sequence[Mapping[str, torch.Tensor]],
                 tied: Sequence[Sequence[str]]) -> None:
    """Refuses tensors that several stages hold, unless they are declared tied.

    Each stage would get its own copy, and a Step would change them apart.
    """
    declared = [set(group) for group in tied]
    names = {f"{s}:{n}" for s, state in enumerate(stages) for n in state}
    for group in declared:
        if unknown := sorted(group - names):
            raise ExportError(
                f"tied names {unknown}; write '<stage>:<parameter>', for "
                "instance '0:embed.weight'")
    holders: dict[int, dict[int, str]] = {}
    for stage, state in enumerate(stages):
        for name, tensor in state.items():
            if tensor.numel() > 0:
                pointer = tensor.untyped_storage().data_ptr()
                holders.setdefault(pointer, {}).setdefault(stage, name)
    for by_stage in holders.values():
        refuse_shared({f"{s}:{name}" for s, name in by_stage.items()}, tied)


def refuse_shared(names: set[str], tied: Sequence[Sequence[str]]) -> None:
    """ExportError if several stages hold one tensor without being declared tied."""
    if len(names) < 2 or any(names <= set(group) for group in tied):
        return
    raise ExportError(
        f"{' and '.join(sorted(names))} are one tensor in several stages, each of "
        "which would get a copy of its own; if that is meant, declare it: "
        f"tied=[{tuple(sorted(names))}]")
