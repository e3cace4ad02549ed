"""What cannot be exported: refused in a plain sentence, and nothing is left behind."""

import numpy as np
import pytest
import torch
from reading import leftovers
from safetensors.torch import load_file
from torch import nn

from pipestage.export import (
    CrossEntropy,
    ExportError,
    LossProgram,
    MeanSquaredError,
    Size,
    export_module,
    export_pipeline,
)


class Function(nn.Module):
    """A stage that is a function of its arguments."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args, **kwargs):
        return self.function(*args, **kwargs)


X = torch.linspace(-1, 1, 8).reshape(2, 4)


def refused(tmp_path, stages, inputs=None, **options):
    """The sentence an export is refused with."""
    stages = [s if isinstance(s, nn.Module) else Function(s) for s in stages]
    inputs = inputs if inputs is not None else {"x": X}
    with pytest.raises(ExportError) as error:
        export_pipeline(stages, inputs, tmp_path, "m", "1", **options)
    assert leftovers(tmp_path) == []
    message = str(error.value)
    assert "\n" not in message and len(message) < 500
    return error.value


def branch(x):
    if x.sum() > 0:
        return x
    return -x


def topk(x):
    return torch.topk(x, 2)


# Stages, and what the sentence says.
TORCH_REFUSES = {
    "data-dependent branch": (branch, "decides by the value of a tensor"),
    "specialised size": (lambda x: x.view(int(x.shape[0]), 4)[:2] + x[:2]
                         if x.shape[0] == 2 else x.view(2, 4), "rows"),
    "numpy": (lambda x: torch.from_numpy(np.tanh(x.detach().numpy())), "NumPy"),
}


@pytest.mark.parametrize("case", TORCH_REFUSES)
def test_what_torch_refuses_is_said_plainly(tmp_path, case):
    stage, says = TORCH_REFUSES[case]

    error = refused(tmp_path, [stage])

    assert "stage 0" in str(error)
    assert says in str(error)


def test_branch_on_rows_is_refused_with_the_rows_that_work(tmp_path):
    error = refused(tmp_path, [lambda x: x * 2 if x.shape[0] > 2 else x],
                    {"x": torch.ones(5, 4)})

    assert "declare it with sizes={'rows': Size(min=3)}" in str(error)


def test_branch_on_one_row_which_torch_lets_pass_is_caught_by_running_it(tmp_path):
    error = refused(tmp_path, [lambda x: x * 2 if x.shape[0] > 1 else x])

    assert "stage 0 with rows=1 differs from the original" in str(error)


def test_cause_is_what_torch_raised(tmp_path):
    error = refused(tmp_path, [branch])

    assert "data-dependent" in str(error.__cause__)
    assert "if x.sum() > 0" in str(error)


OUTPUTS = {
    "text": (lambda x: (x, "a"), "returns a str at 1"),
    "number": (lambda x: {"x": x, "n": 3}, "returns an int at 'n'"),
    "nothing": (lambda x: None, "returns a NoneType"),
    "named tuple": (topk, "returns a topk"),
    "complex": (lambda x: torch.complex(x, x), "complex64, which does not cross"),
}


@pytest.mark.parametrize("case", OUTPUTS)
def test_outputs_that_are_no_tensors_are_refused(tmp_path, case):
    stage, says = OUTPUTS[case]

    assert says in str(refused(tmp_path, [stage]))


def test_dict_between_stages_is_refused(tmp_path):
    error = refused(tmp_path, [lambda x: {"x": x}, nn.Identity()])

    assert "stage 0 returns a dict; only the last stage may" in str(error)


def test_neighbours_that_disagree_in_number(tmp_path):
    error = refused(tmp_path, [lambda x: (x, x), nn.Linear(4, 2)])

    assert "stage 1 takes (input" in str(error)
    assert "stage0_0: float32 [rows, 4]" in str(error)


def test_neighbours_that_disagree_in_shape_or_dtype(tmp_path):
    assert "stage 1 fails on what stage 0 gives (float32 [2, 4])" in str(
        refused(tmp_path, [nn.Identity(), nn.Linear(5, 2)]))
    assert "float64 [2, 4]" in str(
        refused(tmp_path, [lambda x: x.double(), nn.Linear(4, 2)]))


def test_keyword_that_a_stage_does_not_take(tmp_path):
    error = refused(tmp_path, [nn.Identity(), nn.Linear(4, 2)],
                    {"x": X, "mask": X}, keyword_inputs={1: ["mask"]})

    assert "stage 1 takes (input" in str(error) and "mask" in str(error)


def test_data_dependent_size_between_stages_is_refused(tmp_path):
    error = refused(tmp_path, [lambda x: x[x[:, 0] < 9], lambda x: x * 2])

    assert "stage 0 gives the next a tensor whose size depends on values" in str(error)


def test_output_that_could_not_be_joined_is_refused(tmp_path):
    error = refused(tmp_path, [lambda x: x @ x.T])

    assert "has rows on axis 1 besides axis 0" in str(error)


def test_size_that_no_expression_says_is_refused(tmp_path):
    error = refused(tmp_path, [lambda x: x.new_zeros(max(x.shape[0], x.shape[1]))],
                    {"x": X}, dynamic_axes={"x": {1: "seq"}})

    assert "seq" in str(error) or "cannot be written" in str(error)


def test_parameters_shared_between_stages_are_refused(tmp_path):
    first, last = nn.Linear(4, 4), nn.Linear(4, 4)
    last.weight = first.weight

    error = refused(tmp_path, [first, last])

    assert "0:weight and 1:weight are one tensor in several stages" in str(error)
    assert "tied=[('0:weight', '1:weight')]" in str(error)


def test_stage_that_changes_a_buffer_or_its_input_is_refused(tmp_path):
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count.add_(1)
            return x + self.count

    assert "stage 0 changes 'count' when it evaluates" in str(
        refused(tmp_path, [Counter()], tolerance=1e9))
    assert "changes its input 'x' in place" in str(
        refused(tmp_path, [lambda x: x.add_(1)]))


def test_reference_that_differs_is_refused_with_the_difference(tmp_path):
    class Whole(nn.Module):
        def forward(self, x):
            return x * 2.5

    error = refused(tmp_path, [lambda x: x * 2], {"x": torch.ones(2, 3)},
                    reference=Whole())

    assert "differs from the original by up to 0.5 (allowed: 0)" in str(error)


def test_operators_that_workers_do_not_run_are_refused_by_name(tmp_path):
    library = torch.library.Library("pipestage_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    library.impl("twice", lambda x: torch.empty_like(x), "Meta")

    error = refused(tmp_path, [lambda x: torch.ops.pipestage_test.twice(x)])

    assert "pipestage_test" in str(error) and "workers do not run" in str(error)


def add_all(*tensors, **named):
    return sum(tensors) + sum(named.values())


ARGUMENTS = {
    "no stages": (dict(stages=[]), "there are no stages"),
    "not a module": (dict(stages=["x"]), "no nn.Module"),
    "not a tensor": (dict(inputs={"x": 3}), "is a int, not a tensor"),
    "unknown keyword": (dict(keyword_inputs={0: ["mask"]}), "name ['mask']"),
    "stage that is not there": (dict(keyword_inputs={4: ["y"]},
                                     inputs={"x": X, "y": X}), "stages [4]"),
    "unused input": (dict(positional=["x"], inputs={"x": X, "y": X}),
                     "no stage uses the inputs ['y']"),
    "no rows": (dict(axes={"x": None}), "no input is split"),
    "axis that is not there": (dict(axes={"x": 2}), "has no axis 2"),
    "rows that disagree": (dict(inputs={"x": X, "y": X[:1]}),
                           "'rows' is 2 in 'x' but 1 in 'y'"),
    "size nobody has": (dict(sizes={"seq": Size(1, 2)}), "which no axis has"),
    "size without room": (dict(sizes={"rows": Size(1, 1)}), "no open size"),
    "target without loss": (dict(targets={"t": X}), "targets but no loss"),
    "name of an output": (dict(output_names=["a", "b"]), "gives 1 outputs"),
    "output axis": (dict(output_axes={"output": 1}), "axis 1"),
    "unknown prediction": (dict(targets={"t": X},
                                loss=MeanSquaredError("y", "t")), "output 'y'"),
    "target of another shape": (dict(targets={"t": X[:, :2]},
                                     loss=MeanSquaredError("output", "t")),
                                "needs a target of that shape"),
    "target that is no class": (dict(targets={"t": X[:, 0]},
                                     loss=CrossEntropy("output", "t")),
                                "needs integer targets"),
    "complex input": (dict(inputs={"x": torch.zeros(2, 2, dtype=torch.complex64)}),
                      "complex64"),
    "tie that is not there": (dict(tied=[("0:w", "1:w")]), "tied names"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments_that_contradict_themselves(tmp_path, case):
    options, says = ARGUMENTS[case]
    arguments = dict(stages=[Function(add_all)], inputs={"x": X})
    arguments.update(options)

    with pytest.raises(ExportError) as error:
        export_pipeline(repository=tmp_path, name="m", version="1", **arguments)

    assert says in str(error.value)
    assert leftovers(tmp_path) == []


LOSSES = {
    "mean": (lambda y, t: (y - t).mean(), "not their mean"),
    "float weights": (lambda y, t: ((y - t).sum(1), t[:, 0]), "weights are integers"),
    "weights of another shape": (lambda y, t: ((y - t), t[:, 0] > 0),
                                 "of the losses' shape"),
    "three tensors": (lambda y, t: (y, t, t), "returns 3 tensors"),
}


@pytest.mark.parametrize("case", LOSSES)
def test_loss_program_that_returns_something_else(tmp_path, case):
    function, says = LOSSES[case]

    error = refused(tmp_path, [nn.Linear(4, 4)], targets={"t": X},
                    loss=LossProgram(Function(function), ["output", "t"]))

    assert says in str(error)


@pytest.mark.parametrize("name, version", [
    ("UPPER", "1"), ("", "1"), ("../m", "1"), ("m", ".hidden"), ("m", "a/b")])
def test_names_that_are_no_names_are_refused(tmp_path, name, version):
    with pytest.raises(ExportError, match="cannot be a"):
        export_pipeline([nn.Identity()], {"x": X}, tmp_path, name, version)


def test_version_that_exists_is_refused_and_kept(tmp_path):
    existing = tmp_path / "m" / "1"
    existing.mkdir(parents=True)
    (existing / "pipeline.json").write_text("{}")

    with pytest.raises(ExportError, match="exists, and a package never changes"):
        export_pipeline([nn.Identity()], {"x": X}, tmp_path, "m", "1")

    assert (existing / "pipeline.json").read_text() == "{}"


def test_failure_while_writing_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr("pipestage.export.package.write_weights", full)

    with pytest.raises(OSError, match="no space"):
        export_pipeline([nn.Linear(4, 2)], {"x": X}, tmp_path, "m", "1")
    assert leftovers(tmp_path) == []


class Skip(nn.Module):
    """The last layer needs what the first one gave."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        first = self.a(x)
        return self.c(self.b(first)) + first


def test_skip_connection_past_a_neighbour_is_refused(tmp_path):
    with pytest.raises(ExportError,
                       match="stage 2 uses a tensor of stage 0, which is not its"):
        export_module(Skip(), {"x": X}, tmp_path, "m", "1", split_points=["b", "c"])
    assert leftovers(tmp_path) == []


def test_split_point_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ExportError, match="has no such submodule"):
        export_module(Skip(), {"x": X}, tmp_path, "m", "1", split_points=["d"])


def test_parameter_on_both_sides_of_a_split_is_refused(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight

    with pytest.raises(ExportError, match="are one tensor in several stages"):
        export_module(model, {"input": X}, tmp_path, "m", "1", split_points=["1"])


def test_submodule_on_both_sides_of_a_split_is_refused(tmp_path):
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, nn.ReLU(), layer)

    with pytest.raises(ExportError, match="are one tensor in several stages|under several names"):
        export_module(model, {"input": X}, tmp_path, "m", "1", split_points=["1"])


def test_parameter_tied_across_a_split_is_written_into_both_stages(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight

    export_module(model, {"input": X}, tmp_path, "m", "1", split_points=["1"],
                  tied=[("0:0.weight", "1:2.weight")])

    weights = [load_file(tmp_path / "m" / "1" / "weights" / f"{s}.safetensors") for s in (0, 1)]
    assert torch.equal(weights[0]["0.weight"], weights[1]["2.weight"])
    assert model[2].weight is model[0].weight
