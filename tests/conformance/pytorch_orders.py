"""The orders of the installed PyTorch's schedules.

No process group is needed: constructors read four attributes of a stage. What GPipe
and 1F1B execute is procedural (and differs from the table that 1F1B publishes), so it
is recorded by a stage that runs nothing; their lowered rows are what PyTorch's passes
make of that.
"""

from types import SimpleNamespace
from unittest import mock

import torch
from torch.distributed.pipelining import schedules

SINGLE_STAGE = ["GPipe", "1F1B"]
LOOP = ["Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble"]
V = ["ZBVZeroBubble", "DualPipeV"]


class RecordingStage(schedules._PipelineStageBase):
    """Notes the forwards and backwards that a schedule asks of one stage."""

    def __init__(self, stage, num_stages):
        self.stage_index, self.num_stages = stage, num_stages
        self.group_size, self.group_rank = num_stages, stage
        self.submod, self.device = None, "cpu"
        self.output_chunks, self.actions = [], []

    def clear_runtime_states(self):
        pass

    def _no_ops(self, microbatch):
        return []

    get_fwd_recv_ops = get_fwd_send_ops = _no_ops
    get_bwd_recv_ops = get_bwd_send_ops = _no_ops

    def forward_one_chunk(self, microbatch, *args, **kwargs):
        self.actions.append(f"{self.stage_index}F{microbatch}")
        return torch.zeros(1)

    def backward_one_chunk(self, microbatch, **kwargs):
        self.actions.append(f"{self.stage_index}B{microbatch}")

    def perform_reduce_grad(self, factor):
        pass


RecordingStage.__abstractmethods__ = frozenset()


def _executed_by_single_stage_schedule(name, num_ranks, microbatches):
    rows = {}
    for rank in range(num_ranks):
        stage = RecordingStage(rank, num_ranks)
        nothing = mock.Mock(return_value={})
        with mock.patch.multiple(schedules, _batch_p2p=nothing, _sorted_batch_p2p=nothing,
                                 _wait_batch_p2p=nothing):
            schedule = schedules.get_schedule_class(name)(
                stage, microbatches, loss_fn=lambda output, target: output)
            schedule._initialize_stage = lambda *args, **kwargs: None
            targets = [torch.zeros(1)] * microbatches
            schedule.step(target_mbs=targets if rank == num_ranks - 1 else None,
                          arg_mbs=[()] * microbatches, return_outputs=False)
        rows[rank] = [schedules._Action.from_str(action) for action in stage.actions]
    lowered = {rank: schedules._add_reduce_grad(schedules._add_unshard_reshard(list(row)), microbatches)
               for rank, row in rows.items()}
    return rows, schedules._add_send_recv(lowered, lambda stage: stage, num_ranks)


def _order_of_multi_stage_schedule(name, num_ranks, per_rank, microbatches):
    stages = [SimpleNamespace(num_stages=num_ranks * per_rank, group_size=num_ranks, group_rank=0,
                              submod=None, stage_index=i * num_ranks) for i in range(per_rank)]
    schedule = schedules.get_schedule_class(name)(stages, microbatches)
    compute = {rank: [action for action in row if action is not None]
               for rank, row in schedule.pipeline_order.items()}
    return compute, schedule.pipeline_order_with_comms


def _text(rows):
    return "".join(",".join(map(str, rows[rank])) + "\n" for rank in sorted(rows))


def orders(name, num_ranks, per_rank, microbatches):
    """(compute, lowered) as CSV; ValueError where PyTorch refuses the numbers."""
    if name in SINGLE_STAGE:
        compute, lowered = _executed_by_single_stage_schedule(name, num_ranks, microbatches)
    else:
        compute, lowered = _order_of_multi_stage_schedule(name, num_ranks, per_rank, microbatches)
    return _text(compute), _text(lowered)
