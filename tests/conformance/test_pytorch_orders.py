"""Our orders against those of the PyTorch that is installed, action for action."""

import subprocess

import pytest

from tests.cluster.processes import BIN
from tests.conformance import pytorch_orders

PRINT_ORDERS = BIN / "tests" / "conformance" / "print_orders"
RANKS = [1, 2, 3, 4, 5, 8]
STAGES_PER_RANK = [1, 2, 3, 4]
MICROBATCHES = range(1, 17)
LEVELS = ("compute", "lowered")


def ours(schedule, num_ranks, per_rank):
    """{(microbatches, level): CSV or "error: ..."} of one schedule and shape."""
    keys = [(m, level) for m in MICROBATCHES for level in LEVELS]
    asked = "".join(f"{schedule} {num_ranks} {per_rank} {m} {level}\n" for m, level in keys)
    out = subprocess.run([PRINT_ORDERS], input=asked, check=True, capture_output=True, text=True).stdout
    answers = out.split("\n\n")
    assert len(answers) == len(keys) + 1
    return {key: answer + "\n" for key, answer in zip(keys, answers)}


POINTS = [(schedule, p, 1) for schedule in pytorch_orders.SINGLE_STAGE for p in RANKS] + [
    (schedule, p, v) for schedule in pytorch_orders.LOOP + pytorch_orders.V for p in RANKS for v in STAGES_PER_RANK]


@pytest.mark.parametrize("schedule,num_ranks,per_rank", POINTS)
def test_orders_equal_pytorchs_and_what_it_refuses_we_do_or_explain(schedule, num_ranks, per_rank):
    answers = ours(schedule, num_ranks, per_rank)

    for m in MICROBATCHES:
        mine = tuple(answers[m, level] for level in LEVELS)
        try:
            theirs = pytorch_orders.orders(schedule, num_ranks, per_rank, m)
        except ValueError:
            # An answer has passed the verifier; a refusal says what would do.
            assert mine[1].startswith("error: ") == (schedule in pytorch_orders.V and per_rank != 2)
            if mine[1].startswith("error: "):
                assert f"{schedule} takes 2 stages per rank, not {per_rank}" in mine[1]
            continue
        for level, my_rows, their_rows in zip(LEVELS, mine, theirs):
            assert my_rows == their_rows, f"{level}, {m} microbatches"


def test_nothing_of_the_grid_is_left_out():
    taken = refused = 0
    for schedule, num_ranks, per_rank in POINTS:
        for m in MICROBATCHES:
            try:
                pytorch_orders.orders(schedule, num_ranks, per_rank, m)
                taken += 1
            except ValueError:
                refused += 1

    assert taken + refused == (2 * 6 + 5 * 6 * 4) * 16
    assert taken == 1327


def test_the_table_that_pytorch_publishes_for_1f1b_is_not_what_it_executes():
    """The deviation docs/schedules.md names: should PyTorch mend it, this says so."""
    from types import SimpleNamespace

    from torch.distributed.pipelining import schedules

    stage = SimpleNamespace(num_stages=2, group_size=2, group_rank=0, submod=None, stage_index=0)
    published = schedules.Schedule1F1B(stage, 4).pipeline_order

    forwards = [a.microbatch_index for a in published[1] if a and a.computation_type == schedules.FORWARD]
    assert forwards == [1, 2, 3, 4]
    assert "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3\n" in ours("1F1B", 2, 1)[4, "compute"]
