"""Models of many kinds through the exporter, and the contracts that they get."""

import sys

import pytest
import torch
from reading import contract_of, shapes
from torch import nn
from torch.distributed.pipelining import SplitPoint

from pipestage.export import (
    MeanSquaredError,
    PipelineSpec,
    Size,
    export_module,
    export_pipeline,
)
from pipestage.export.__main__ import main


class Function(nn.Module):
    """A stage that is a function of its arguments."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


@pytest.fixture
def export(tmp_path):
    """Exports stages and returns the contract."""
    def run(stages, inputs, **options):
        return contract_of(export_pipeline(stages, inputs, tmp_path, "model", "1",
                                           **options))
    return run


def test_mlp_in_two_stages(export):
    contract = export(
        [nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2)],
        {"x": torch.randn(2, 4)}, targets={"t": torch.randn(2, 2)},
        loss=MeanSquaredError("output", "t"))

    assert shapes(contract["stages"][0]["outputs"]) == {"stage0": ["rows", 8]}
    assert shapes(contract["outputs"]) == {"output": ["rows", 2]}
    assert contract["loss"]["kind"] == "mean_squared_error"


def test_convolutions_with_batch_norm_and_open_width(export):
    contract = export(
        [nn.Sequential(nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.BatchNorm2d(4)),
         nn.Sequential(nn.ReLU(), nn.Conv2d(4, 2, 3, padding=1))],
        {"image": torch.randn(2, 3, 8, 10)},
        dynamic_axes={"image": {3: "width"}}, sizes={"width": Size(4, 100)})

    assert shapes(contract["stages"][0]["outputs"]) == {
        "stage0": ["rows", 4, 4, "(width-1)//2+1"]}
    assert contract["stages"][1]["inputs"] == contract["stages"][0]["outputs"]


class Attention(nn.Module):
    """A block that pays no attention to what is padding."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.norm = nn.LayerNorm(8)

    def forward(self, hidden, padding):
        rows, seq, _ = hidden.shape
        q, k, v = self.qkv(self.norm(hidden)).view(rows, seq, 3, 2, 4).permute(
            2, 0, 3, 1, 4)
        allowed = ~padding.view(rows, 1, 1, seq)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, allowed)
        return hidden + mixed.transpose(1, 2).reshape(rows, seq, 8)


def test_attention_with_a_mask_as_keyword_of_two_stages(export):
    class First(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.block = nn.Embedding(10, 8), Attention()

        def forward(self, ids, padding):
            return self.block(self.embed(ids), padding)

    contract = export(
        [First(), Attention()],
        {"ids": torch.randint(10, (2, 6)),
         "padding": torch.zeros(2, 6, dtype=torch.bool)},
        keyword_inputs={0: ["padding"], 1: ["padding"]},
        dynamic_axes={"ids": {1: "seq"}, "padding": {1: "seq"}},
        sizes={"seq": Size(2, 64)})

    assert [s["keyword_inputs"] for s in contract["stages"]] == [["padding"]] * 2
    assert shapes(contract["outputs"]) == {"output": ["rows", "seq", 8]}


def test_torchs_own_encoder_layer_is_bit_equal(export):
    # In eval mode and without gradients it would take a fused kernel, which rounds
    # differently from the operators that are exported.
    export([nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)],
           {"x": torch.randn(2, 5, 8)})


def test_recurrent_layer_after_a_stage_of_two_outputs(export):
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(4, 5, batch_first=True)

        def forward(self, sums, last):
            return self.gru(sums)[0] + last.sum(1)[:, None, None]

    contract = export([Function(lambda x: (x.cumsum(1), x.sum(1))), Recurrent()],
                      {"x": torch.randn(2, 3, 4)})

    assert [t["name"] for t in contract["stages"][1]["inputs"]] == ["stage0_0",
                                                                  "stage0_1"]


def test_bools_and_integers_pass_between_stages(export):
    contract = export(
        [Function(lambda x: (x > 0, (x * 3).int(), x.to(torch.bfloat16), x.half())),
         Function(lambda m, i, b, h: {"y": torch.where(m, i, 0) + b.float() + h,
                                      "any": m.any(1), "total": i.sum()})],
        {"x": torch.randn(3, 4, dtype=torch.float64)})

    assert [t["dtype"] for t in contract["stages"][0]["outputs"]] == [
        "bool", "int32", "bfloat16", "float16"]
    assert [(o["name"], o["dtype"], o["shape"], o["axis"])
            for o in contract["outputs"]] == [
        ("y", "float32", ["rows", 4], 0), ("any", "bool", ["rows"], 0),
        ("total", "int64", [], None)]


def test_sizes_are_expressions_of_the_named_ones(export):
    def stretch(x):
        return torch.cat([x, x, x[:1]]), x[:, ::2], x[:, 1:].transpose(0, 1)

    def back(triple, halved, shifted):
        rows = (triple.shape[0] - 1) // 2
        return triple[:rows], halved.flatten(), shifted, triple.reshape(-1)

    contract = export([Function(stretch), Function(back)], {"x": torch.randn(2, 9)},
                      dynamic_axes={"x": {1: "seq"}}, sizes={"seq": Size(3, 99)})

    assert list(shapes(contract["stages"][0]["outputs"]).values()) == [
        ["rows*2+1", "seq"], ["rows", "(seq+1)//2"], ["seq-1", "rows"]]
    outputs = contract["outputs"]
    assert outputs[1]["shape"] == ["rows*((seq+1)//2)"]
    assert (outputs[2]["shape"], outputs[2]["axis"]) == (["seq-1", "rows"], 1)


def test_sizes_known_only_at_run_time_are_question_marks(export):
    contract = export([Function(lambda x: {"kept": x[x[:, 0] > 0],
                                           "where": (x > 0).nonzero()})],
                      {"x": torch.randn(3, 4)})

    assert shapes(contract["outputs"]) == {"kept": ["?", 4], "where": ["?", 2]}
    assert [o["axis"] for o in contract["outputs"]] == [0, 0]


def test_inputs_are_split_on_other_axes_or_replicated(export):
    contract = export(
        [Function(lambda x, *, table: x.transpose(0, 1) @ table)],
        {"x": torch.randn(4, 3), "table": torch.randn(4, 5)},
        keyword_inputs={0: ["table"]}, axes={"x": -1, "table": None})

    assert [(i["axis"], i["shape"]) for i in contract["inputs"]] == [
        (1, [4, "rows"]), (None, [4, 5])]


def test_outputs_without_rows_are_stacked(export):
    contract = export([Function(lambda x: (x.mean(), x.sum(0)))],
                      {"x": torch.randn(3, 4)}, output_names=["mean", "sum"])

    assert [(o["axis"], o["shape"]) for o in contract["outputs"]] == [
        (None, []), (None, [4])]


def test_parameters_that_stages_share_on_purpose_are_copied(export):
    first, last = nn.Linear(4, 4), nn.Linear(4, 4)
    last.weight = first.weight

    contract = export([first, last], {"x": torch.randn(2, 4)},
                      tied=[("0:weight", "1:weight")])

    assert [s["weights"] for s in contract["stages"]] == [
        "weights/0.safetensors", "weights/1.safetensors"]


def test_reference_within_the_tolerance_is_accepted(export):
    class Whole(nn.Module):
        def forward(self, x):
            return x * 2 + 1e-6

    export([Function(lambda x: x * 2)], {"x": torch.ones(2, 3)}, reference=Whole(),
           tolerance=1e-5)


class Blocks(nn.Module):
    """Its size arithmetic and its mask are needed in every stage of a split."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.blocks = nn.ModuleList([Attention(), Attention()])
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(8, 10)

    def forward(self, ids, padding):
        hidden = self.embed(ids)
        for block in self.blocks:
            hidden = self.dropout(block(hidden, padding))
        flat = self.head(hidden.reshape(-1, 8))
        return {"logits": flat.view(ids.shape[0], ids.shape[1], 10)}


def test_one_module_is_cut_at_split_points(tmp_path):
    module = Blocks()
    package = export_module(
        module, {"ids": torch.randint(10, (2, 6)),
                 "padding": torch.zeros(2, 6, dtype=torch.bool)},
        tmp_path, "cut", "1",
        split_points={"blocks.1": SplitPoint.BEGINNING, "head": SplitPoint.END},
        dynamic_axes={"ids": {1: "seq"}, "padding": {1: "seq"}},
        sizes={"seq": Size(2, 64)}, train=True)

    contract = contract_of(package)
    stages = contract["stages"]
    assert [s["keyword_inputs"] for s in stages] == [[], ["padding"], ["ids"]]
    assert shapes(stages[1]["outputs"]) == {"stage1": ["rows*seq", 10]}
    assert shapes(contract["outputs"]) == {"logits": ["rows", "seq", 10]}
    assert all("step_program" in s for s in stages)
    assert "forward" not in vars(module.blocks[1])


def described():
    return PipelineSpec(module=nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2)),
                        split_points=["1"], inputs={"input": torch.ones(2, 3)})


def test_command_line_exports_what_a_function_describes(tmp_path, capsys):
    status = main([f"{__name__}:described", "--name", "two", "--version", "5",
                   "--repository", str(tmp_path)])

    assert status == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "two" / "5")
    assert len(contract_of(tmp_path / "two" / "5")["stages"]) == 2


def test_command_line_says_what_is_wrong_in_one_line(tmp_path, capsys):
    for place in ("no_such_module:f", f"{__name__}:absent", "without_colon"):
        assert main([place, "--name", "x", "--repository", str(tmp_path)]) == 1

    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 3 and all(e.startswith("error: ") for e in errors)
    assert sys.path  # still usable
