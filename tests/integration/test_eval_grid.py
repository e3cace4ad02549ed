"""Any batch, any number of microbatches, any placement: equal to one process, exactly."""

import numpy as np
import pytest

from tests.cluster.models import digits, digits_of, rows

SCHEDULES = ("GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    for stages in (1, 2, 3, 4, 6, 8):
        digits(path, stages, loss="mse")
    return path


@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_every_batch_and_microbatch_count_gives_what_one_process_gives(workers, repository, start_cluster):
    cluster = start_cluster(repository, workers)
    for stages_per_worker in (1, 2):
        stages = workers * stages_per_worker
        model = f"digits{stages}"
        cluster.client.load_model(model)
        for batch in range(1, 10):
            x = rows(batch)
            want = digits_of(x, stages)
            targets = want - 2.0  # every element's squared error is 4
            for microbatches in range(1, 9):
                result = cluster.client.eval(
                    model, inputs={"x": x}, targets={"target": targets},
                    num_microbatches=microbatches, return_outputs=True,
                    schedule=SCHEDULES[(batch + microbatches) % 4],
                )
                used = min(batch, microbatches)
                np.testing.assert_array_equal(result.outputs["y"], want)
                assert (result.loss_sum, result.weight, result.loss) == (4.0 * batch, batch, 4.0)
                assert [m.rows for m in result.microbatches] == [
                    batch // used + (m < batch % used) for m in range(used)
                ]
                assert [m.loss_sum for m in result.microbatches] == [4.0 * m.rows for m in result.microbatches]
                assert result.ran.num_microbatches == used
                assert result.ran.workers == workers
                assert result.ran.stages_per_worker == stages_per_worker


def test_loss_does_not_depend_on_how_the_batch_is_cut(repository, start_cluster, rng):
    cluster = start_cluster(repository, 2)
    cluster.client.load_model("digits2")
    x = rows(97)
    # Terms of very different size: their sum in another order has other last bits.
    targets = digits_of(x, 2) + rng.standard_normal((97, 1)) * 10.0 ** rng.integers(-8, 8, (97, 1))

    sums = {
        cluster.client.eval("digits2", inputs={"x": x}, targets={"target": targets}, num_microbatches=m).loss_sum
        for m in (1, 2, 3, 7, 32, 97)
    }

    assert len(sums) == 1


def test_more_microbatches_than_rows_are_lowered_and_reported(repository, start_cluster):
    cluster = start_cluster(repository, 1)
    cluster.client.load_model("digits1")

    result = cluster.client.eval("digits1", inputs={"x": rows(3)}, targets={"target": rows(3)}, num_microbatches=500)

    assert result.ran.num_microbatches == 3


def test_shapes_may_change_from_call_to_call_without_a_new_plan(repository, start_cluster):
    cluster = start_cluster(repository, 2)
    cluster.client.load_model("digits2")
    arguments = dict(num_microbatches=4, schedule="1F1B", return_outputs=True)
    cluster.client.eval("digits2", inputs={"x": rows(4)}, targets={"target": rows(4)}, **arguments)

    results = [
        cluster.client.eval("digits2", inputs={"x": rows(b)}, targets={"target": rows(b)}, **arguments)
        for b in (5, 40, 4, 7)
    ]

    assert all(result.ran.plan_cache_hit for result in results)
    for batch, result in zip((5, 40, 4, 7), results):
        np.testing.assert_array_equal(result.outputs["y"], digits_of(rows(batch), 2))
