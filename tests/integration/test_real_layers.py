"""Real layers through real workers: what the same microbatches give in one process; and
every kind of argument and output that a stage may have.
"""

import numpy as np
import pytest
import torch
from torch import nn

from pipestage.export import CrossEntropy, LossProgram, MeanSquaredError, export_pipeline

torch.set_num_threads(1)
# Eager attention would take a fused kernel in inference that torch.export does not see;
# it rounds differently.
torch.backends.mha.set_fastpath_enabled(False)


class Block(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.dropout(self.attention(h, h, h, need_weights=False)[0])
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class ConvStage(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.norm = nn.BatchNorm2d(channels_out)

    def forward(self, x):
        return nn.functional.relu(self.norm(self.conv(x)))


def mlp():
    return [nn.Sequential(nn.Linear(12, 32), nn.GELU()), nn.Sequential(nn.Linear(32, 8), nn.Tanh())]


def transformer():
    return [nn.Sequential(nn.Embedding(50, 16), Block(16)), Block(16), Block(16),
            nn.Sequential(Block(16), nn.Linear(16, 50))]


def convolution():
    stages = [ConvStage(3, 6), ConvStage(6, 4)]
    for stage in stages:  # statistics that are not the defaults
        stage.train()(torch.randn(8, stage.conv.in_channels, 5, 5))
    return stages


MODELS = {
    "mlp": (mlp, lambda b: torch.randn(b, 12)),
    "transformer": (transformer, lambda b: torch.randint(0, 50, (b, 7))),
    "convolution": (convolution, lambda b: torch.randn(b, 3, 6, 6)),
}


@pytest.fixture(scope="module")
def real(tmp_path_factory, start_cluster):
    """(cluster, {name: stages}) with every model of MODELS loaded."""
    repository = tmp_path_factory.mktemp("models")
    stages = {}
    for name, (make, sample) in MODELS.items():
        torch.manual_seed(1)
        stages[name] = [stage.eval() for stage in make()]
        export_pipeline(stages[name], {"x": sample(4)}, repository, name, "1", output_names=["y"])
    cluster = start_cluster(repository, 2)
    for name in MODELS:
        cluster.client.load_model(name)
    return cluster, stages


def in_one_process(stages, x, microbatches):
    """The stages over the same microbatches, one after the other, in this process."""
    with torch.inference_mode():
        parts = []
        for part in torch.tensor_split(x, min(microbatches, len(x))):
            for stage in stages:
                part = stage(part)
            parts.append(part)
        return torch.cat(parts)


@pytest.mark.parametrize("schedule", ["1F1B", "LoopedBFS"])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_the_same_microbatches_in_one_process(real, name, schedule):
    cluster, stages = real
    torch.manual_seed(5)
    for batch, microbatches in ((1, 1), (5, 2), (9, 4), (16, 16)):
        x = MODELS[name][1](batch)

        result = cluster.client.eval(name, inputs={"x": x.numpy()}, num_microbatches=microbatches,
                                     schedule=schedule, return_outputs=True)

        want = in_one_process(stages[name], x, microbatches).numpy()
        assert result.outputs["y"].tobytes() == want.tobytes()


@pytest.mark.parametrize("name", MODELS)
def test_two_workers_give_bit_for_bit_what_one_worker_gives(real, name, start_cluster):
    cluster, _ = real
    alone = start_cluster(cluster.repository, 1)
    alone.client.load_model(name)
    torch.manual_seed(6)
    for batch, microbatches in ((1, 1), (2, 1), (5, 2), (9, 4), (16, 16)):
        call = dict(inputs={"x": MODELS[name][1](batch).numpy()}, num_microbatches=microbatches, return_outputs=True)

        together = cluster.client.eval(name, **call)

        assert (together.ran.workers, alone.client.eval(name, **call).ran.workers) == (2, 1)
        assert together.outputs["y"].tobytes() == alone.client.eval(name, **call).outputs["y"].tobytes()


class Split(nn.Module):
    """Several outputs of several dtypes across the boundary."""

    def forward(self, x, tokens):
        return x * 2, tokens + 1, tokens > 3, x.to(torch.bfloat16), x.double().sum()

    # The last is 0-dim.


class Join(nn.Module):
    """A dict of outputs: non-contiguous, 0-dim, without rows, a narrow float."""

    def forward(self, x, tokens, big, narrow, total):
        return {
            "transposed": (x + tokens.unsqueeze(1)).reshape(x.shape[0], 2, -1).transpose(1, 2),
            "total": total,
            "nothing": x[:0],
            "half": narrow.to(torch.float16),
            "flags": big & (tokens % 2 == 0),
        }


def test_tuples_dicts_and_every_kind_of_output(tmp_path, start_cluster):
    export_pipeline([Split(), Join()], {"x": torch.randn(4, 6), "tokens": torch.arange(4)}, tmp_path, "kinds", "1")
    cluster = start_cluster(tmp_path, 2)
    cluster.client.load_model("kinds")
    x, tokens = torch.randn(7, 6), torch.arange(7)

    result = cluster.client.eval("kinds", inputs={"x": x.numpy(), "tokens": tokens.numpy()}, num_microbatches=3,
                                 return_outputs=True)

    parts = [Join()(*Split()(a, b)) for a, b in zip(x.tensor_split(3), tokens.tensor_split(3))]
    for name in ("transposed", "half", "flags"):
        want = torch.cat([part[name] for part in parts]).contiguous().numpy()
        assert result.outputs[name].dtype == want.dtype
        assert result.outputs[name].tobytes() == want.tobytes(), name
    # One a microbatch, stacked.
    assert result.outputs["total"].tolist() == [part["total"].item() for part in parts]
    assert result.outputs["nothing"].size == 0


class Positions(nn.Module):
    """Adds pos[0] where mask is set, times scale: arguments split on different axes."""

    def forward(self, x, pos, scale, mask):
        return x + torch.where(mask.any(-1), pos[0], torch.zeros_like(x)) * scale


class ColumnLoss(nn.Module):
    """Squared error of each row against a column of the targets, which count twice."""

    def forward(self, y, target):
        each = ((y - target.t()) ** 2).sum(1)
        return each, torch.full_like(each, 2, dtype=torch.long)


def test_keyword_inputs_split_on_their_own_axes_or_are_replicated(tmp_path, start_cluster):
    inputs = {"x": torch.zeros(6, 4), "pos": torch.zeros(3, 6, 4), "scale": torch.tensor(1.0),
              "mask": torch.zeros(6, 4, 4, dtype=torch.bool)}
    keywords = ["pos", "scale", "mask"]
    export_pipeline([Positions() for _ in range(3)], inputs, tmp_path, "positions", "1",
                    keyword_inputs={0: keywords, 1: keywords, 2: keywords},
                    axes={"pos": 1, "scale": None, "target": 1},
                    targets={"target": torch.zeros(4, 6)}, output_names=["y"],
                    loss=LossProgram(ColumnLoss(), ["y", "target"]))
    cluster = start_cluster(tmp_path, 3)
    cluster.client.load_model("positions")
    rows = torch.arange(6.0)
    call = {
        "x": torch.arange(24.0).reshape(6, 4),
        "pos": (100 * rows).reshape(1, 6, 1).expand(3, 6, 4).contiguous(),
        "scale": torch.tensor(7.0),
        "mask": (rows % 2 == 0).reshape(6, 1, 1).expand(6, 4, 4).contiguous(),
    }

    target = torch.arange(24.0).reshape(4, 6)

    result = cluster.client.eval("positions", inputs={k: v.numpy() for k, v in call.items()},
                                 targets={"target": target.numpy()}, num_microbatches=4, return_outputs=True)

    want = call["x"] + 3 * 7 * torch.where(rows % 2 == 0, 100 * rows, torch.zeros(6)).unsqueeze(1)
    np.testing.assert_array_equal(result.outputs["y"], want.numpy())
    each = ((want - target.t()) ** 2).sum(1)  # in float32, as the program computes it
    assert result.loss_sum == 2 * each.double().sum().item()
    assert result.weight == 12


class Identity(nn.Module):
    def forward(self, x):
        return x + 0


@pytest.fixture(scope="module")
def losses(tmp_path_factory, start_cluster):
    repository = tmp_path_factory.mktemp("models")
    export_pipeline([Identity(), Identity()], {"x": torch.zeros(4, 3, 5)}, repository, "tokens", "1",
                    targets={"t": torch.zeros(4, 3, dtype=torch.long)}, output_names=["y"],
                    loss=CrossEntropy("y", "t", ignore_index=-1))
    export_pipeline([Identity(), Identity()], {"x": torch.zeros(4, 1)}, repository, "rowloss", "1",
                    targets={"t": torch.zeros(4, 1)}, output_names=["y"], loss=MeanSquaredError("y", "t"))
    cluster = start_cluster(repository, 2)
    cluster.client.load_model("tokens")
    cluster.client.load_model("rowloss")
    return cluster


def test_cross_entropy_counts_valid_tokens_only_and_divides_once(losses):
    torch.manual_seed(0)
    x, t = torch.randn(6, 3, 5), torch.randint(0, 5, (6, 3))
    t[0], t[3, 1] = -1, -1  # a row without a valid token, and one token
    each = nn.functional.cross_entropy(x.reshape(-1, 5), t.reshape(-1), ignore_index=-1, reduction="none").double()

    result = losses.client.eval("tokens", inputs={"x": x.numpy()}, targets={"t": t.numpy()}, num_microbatches=6,
                                return_row_losses=True)

    assert result.weight == 14
    assert result.loss_sum == pytest.approx(each.sum().item(), rel=1e-6)
    assert result.loss == result.loss_sum / 14
    assert result.microbatches[0].weight == 0 and result.microbatches[0].loss_sum == 0
    np.testing.assert_allclose(result.row_losses, each.reshape(6, 3).sum(1).numpy(), rtol=1e-6)
    assert result.row_weights.tolist() == [0, 3, 3, 2, 3, 3]


def test_no_valid_target_at_all_is_said_and_is_no_number(losses):
    x, t = torch.randn(4, 3, 5), torch.full((4, 3), -1)

    result = losses.client.eval("tokens", inputs={"x": x.numpy()}, targets={"t": t.numpy()}, num_microbatches=2)

    assert (result.weight, result.loss_sum, result.loss) == (0, 0.0, None)


@pytest.mark.parametrize("values, microbatches, mean", [
    ([1, 2, 3, 4, 5], 2, 3.0),  # a mean of means would be 3.25
    ([i * i for i in range(7)], 4, 13.0),  # 15.875
])
def test_uneven_microbatches_weigh_what_they_hold(losses, values, microbatches, mean):
    x = np.sqrt(np.asarray(values, dtype=np.float64)).astype(np.float32).reshape(-1, 1)
    x64 = x.astype(np.float64)

    result = losses.client.eval("rowloss", inputs={"x": x}, targets={"t": np.zeros_like(x)},
                                num_microbatches=microbatches)

    assert result.loss == pytest.approx(mean, rel=1e-6)
    assert result.weight == len(values)
    assert result.loss_sum == pytest.approx((x64 * x64).sum(), rel=1e-6)


def test_nan_is_reported_with_its_microbatch(losses):
    x = np.zeros((6, 1), dtype=np.float32)
    x[4] = np.nan

    result = losses.client.eval("rowloss", inputs={"x": x}, targets={"t": np.zeros_like(x)}, num_microbatches=3)

    assert [m.nonfinite for m in result.microbatches] == [0, 0, 1]
    assert np.isnan(result.loss_sum)
