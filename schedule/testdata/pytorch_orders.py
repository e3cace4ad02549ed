"""Writes the orders of PyTorch's schedules, as digests, to standard output.

    python schedule/testdata/pytorch_orders.py > schedule/testdata/pytorch_orders.csv

A line holds schedule, P, V, M, and the first 16 hex digits of the SHA-256 of two
texts: the compute actions of each rank in the order in which PyTorch executes
them, and the same with sends and receives as its lowering adds them. A text is in
PyTorch's CSV, without bubbles, each row ended by a newline.

No process group is needed: constructors read four attributes of a stage. What
GPipe and 1F1B execute is procedural (and differs from the table that 1F1B
publishes), so it is recorded by a stage that runs nothing.
"""

import hashlib
from types import SimpleNamespace
from unittest import mock

import torch
from torch.distributed.pipelining import schedules

V_SCHEDULES = ["ZBVZeroBubble", "DualPipeV"]
RANKS = [1, 2, 3, 4, 5, 8]
STAGES_PER_RANK = [1, 2, 3, 4]
MICROBATCHES = list(range(1, 17))


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


def executed_by_single_stage_schedule(name, num_ranks, microbatches):
    rows = {}
    for rank in range(num_ranks):
        stage = RecordingStage(rank, num_ranks)
        nothing = mock.Mock(return_value={})
        with mock.patch.multiple(
            schedules,
            _batch_p2p=nothing,
            _sorted_batch_p2p=nothing,
            _wait_batch_p2p=nothing,
        ):
            schedule = schedules.get_schedule_class(name)(
                stage, microbatches, loss_fn=lambda output, target: output
            )
            schedule._initialize_stage = lambda *args, **kwargs: None
            targets = [torch.zeros(1)] * microbatches
            schedule.step(
                target_mbs=targets if rank == num_ranks - 1 else None,
                arg_mbs=[()] * microbatches,
                return_outputs=False,
            )
        rows[rank] = [schedules._Action.from_str(a) for a in stage.actions]
    return rows


def order_of_multi_stage_schedule(name, num_ranks, per_rank, microbatches):
    stages = [
        SimpleNamespace(
            num_stages=num_ranks * per_rank,
            group_size=num_ranks,
            group_rank=0,
            submod=None,
            stage_index=i * num_ranks,
        )
        for i in range(per_rank)
    ]
    order = schedules.get_schedule_class(name)(stages, microbatches).pipeline_order
    return {r: [a for a in row if a is not None] for r, row in order.items()}


def digest(rows):
    text = "".join(
        ",".join(str(action) for action in rows[rank]) + "\n" for rank in sorted(rows)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def lowered(rows, num_ranks, per_rank, is_v):
    def owner(stage):
        along = stage % num_ranks
        return num_ranks - 1 - along if is_v and stage // num_ranks % 2 else along

    return schedules._add_send_recv(
        {rank: list(row) for rank, row in rows.items()}, owner, num_ranks * per_rank
    )


def main():
    print("schedule,ranks,stages_per_rank,microbatches,compute,lowered")
    for name in [
        "GPipe",
        "1F1B",
        "Interleaved1F1B",
        "LoopedBFS",
        "InterleavedZeroBubble",
        *V_SCHEDULES,
    ]:
        single = name in ("GPipe", "1F1B")
        for num_ranks in RANKS:
            for per_rank in [1] if single else STAGES_PER_RANK:
                for microbatches in MICROBATCHES:
                    try:
                        rows = (
                            executed_by_single_stage_schedule(
                                name, num_ranks, microbatches
                            )
                            if single
                            else order_of_multi_stage_schedule(
                                name, num_ranks, per_rank, microbatches
                            )
                        )
                    except ValueError:
                        continue  # PyTorch refuses this number of microbatches
                    print(
                        name,
                        num_ranks,
                        per_rank,
                        microbatches,
                        digest(rows),
                        digest(
                            lowered(rows, num_ranks, per_rank, name in V_SCHEDULES)
                        ),
                        sep=",",
                    )


if __name__ == "__main__":
    main()
