"""The parts of the examples that do not take long."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).absolute().parents[2] / "examples"


def load(path):
    """A module of an example, which is a folder of scripts and no package."""
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_closed_form_package_is_one_file_with_every_stage(tmp_path):
    write = load(EXAMPLES / "closed_form" / "write.py")

    folder = write.write_closed_form(tmp_path, "digits", "1", 3, loss="mse")

    contract = json.loads((folder / "pipeline.json").read_text())
    assert [p.name for p in folder.iterdir()] == ["pipeline.json"]
    assert [s["program"] for s in contract["stages"]] == [
        {"kind": "module", "name": "digit", "params": {"s": s}} for s in (1, 2, 3)]
    for before, after in zip(contract["stages"], contract["stages"][1:]):
        assert before["outputs"] == after["inputs"]
    assert contract["loss"] == {"kind": "mean_squared_error", "prediction": "y",
                                "target": "target"}
    assert list(tmp_path.joinpath("digits").iterdir()) == [folder]


def test_closed_form_package_takes_parameters_for_each_stage(tmp_path):
    write = load(EXAMPLES / "closed_form" / "write.py")

    folder = write.write_closed_form(tmp_path, "a", "2", 2, module="affine", width=7,
                                     params=[{"scale": 2.0}, {"bias": 1.0}])

    contract = json.loads((folder / "pipeline.json").read_text())
    assert [s["program"]["params"] for s in contract["stages"]] == [
        {"scale": 2.0}, {"bias": 1.0}]
    assert contract["inputs"][0]["shape"] == ["rows", 7]
    with pytest.raises(ValueError, match="2 stages but params of 1"):
        write.write_closed_form(tmp_path, "a", "3", 2, params=[{}])
    with pytest.raises(FileExistsError):
        write.write_closed_form(tmp_path, "a", "2", 2, module="affine")


def test_text_is_cut_into_rows_whose_targets_are_the_next_bytes():
    text = load(EXAMPLES / "byte_lm" / "text.py")

    tokens, targets = text.rows_of(bytes(range(11)), None, 4)

    np.testing.assert_array_equal(tokens, [[0, 1, 2, 3], [4, 5, 6, 7]])
    np.testing.assert_array_equal(targets, tokens + 1)
    assert text.rows_of(bytes(range(11)), 1, 4)[0].shape == (1, 4)
    with pytest.raises(ValueError, match="no row of 20"):
        text.rows_of(bytes(range(11)), None, 20)


def test_language_model_is_the_same_in_any_number_of_stages():
    torch = pytest.importorskip("torch")
    model = load(EXAMPLES / "byte_lm" / "model.py")
    config = model.Config(width=16, layers=4, context=8)
    tokens = torch.randint(256, (2, 8))

    logits = []
    for num_stages in (1, 3, 4):
        torch.manual_seed(0)
        stages = model.make_stages(config, num_stages)
        assert len(stages) == num_stages
        hidden = tokens
        for stage in stages:
            hidden = stage(hidden)
        logits.append(hidden)

    assert all(torch.equal(logits[0], other) for other in logits)
    with pytest.raises(ValueError, match="1 to 4 stages, not 5"):
        model.make_stages(config, 5)
