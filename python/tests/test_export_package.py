"""What an export writes, key by key and record by record."""

import zipfile

import pytest
import torch
from reading import contract_of, graph_of, records, sha256, weights_of
from torch import nn

import pipestage
from pipestage.export import CrossEntropy, LossProgram, Size, export_pipeline


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.linear = nn.Linear(8, 8)
        # Tied: one tensor, two names.
        self.again = nn.Embedding(20, 8)
        self.again.weight = self.embed.weight
        self.register_buffer("shift", torch.ones(8))
        self.register_buffer("cache", torch.full((8,), 2.0), persistent=False)

    def forward(self, tokens):
        both = self.embed(tokens) + self.again(tokens)
        return self.linear(both) * self.cache + self.shift


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.linear = nn.Linear(8, 20)

    def forward(self, hidden, *, scale):
        return self.dropout(self.linear(hidden) * scale)


class Margin(nn.Module):
    """A loss with a weight of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("margin", torch.tensor(0.5))

    def forward(self, logits, targets):
        best = logits.amax(-1)
        chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        return (best - chosen + self.margin).clamp(min=0), targets > 0


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    torch.manual_seed(0)
    stages = [Embed(), Head()]
    tokens = torch.randint(20, (2, 6))
    return export_pipeline(
        stages, {"tokens": tokens, "scale": torch.tensor(2.0)},
        tmp_path_factory.mktemp("models"), "lm", "3",
        keyword_inputs={1: ["scale"]}, targets={"targets": tokens},
        output_names=["logits"],
        dynamic_axes={"tokens": {1: "seq"}, "targets": {1: "seq"}},
        sizes={"seq": Size(2, 512)}, loss=CrossEntropy("logits", "targets"),
        num_microbatches=6, schedule="GPipe", description="for tests",
        train_stages=stages)


def test_contract_holds_exactly_what_the_format_says(package):
    tokens = {"name": "tokens", "dtype": "int64", "shape": ["rows", "seq"],
              "axis": 0}
    hidden = {"name": "stage0", "dtype": "float32", "shape": ["rows", "seq", 8],
              "axis": 0}
    logits = {"name": "logits", "dtype": "float32", "shape": ["rows", "seq", 20],
              "axis": 0}
    contract = contract_of(package)
    files = contract.pop("files")

    assert contract == {
        "format": "pipestage.pipeline/1",
        "name": "lm",
        "version": "3",
        "description": "for tests",
        "created_by": {"pipestage": pipestage.__version__,
                       "torch": torch.__version__},
        "defaults": {"num_microbatches": 6, "schedule": "GPipe"},
        "sizes": {"seq": {"min": 2, "max": 512}},
        "inputs": [tokens, {"name": "scale", "dtype": "float32", "shape": [],
                            "axis": None}],
        "targets": [{**tokens, "name": "targets"}],
        "outputs": [logits],
        "stages": [
            {"program": {"kind": "export", "file": "stages/0.eval.pt2"},
             "step_program": {"kind": "export", "file": "stages/0.step.pt2"},
             "weights": "weights/0.safetensors",
             "inputs": [tokens], "keyword_inputs": [], "outputs": [hidden]},
            {"program": {"kind": "export", "file": "stages/1.eval.pt2"},
             "step_program": {"kind": "export", "file": "stages/1.step.pt2"},
             "weights": "weights/1.safetensors",
             "inputs": [hidden], "keyword_inputs": ["scale"],
             "outputs": [logits]},
        ],
        "loss": {"kind": "cross_entropy", "prediction": "logits",
                 "target": "targets", "ignore_index": -100},
    }
    assert sorted(files) == [
        "stages/0.eval.pt2", "stages/0.step.pt2", "stages/1.eval.pt2",
        "stages/1.step.pt2", "weights/0.safetensors", "weights/1.safetensors"]


def test_every_file_is_named_with_its_size_and_digest(package):
    files = contract_of(package)["files"]
    on_disk = {str(p.relative_to(package)) for p in package.rglob("*")
               if p.is_file()}

    assert on_disk == {*files, "pipeline.json"}
    for name, entry in files.items():
        assert entry == {"sha256": sha256(package / name),
                         "bytes": (package / name).stat().st_size}


def test_files_can_be_read_by_others(package):
    for path in [package, *package.rglob("*")]:
        assert path.stat().st_mode & 0o044 == 0o044, path


def test_program_is_an_uncompressed_archive_without_weights(package):
    program = package / "stages/0.eval.pt2"

    with zipfile.ZipFile(program) as archive:
        entries = archive.infolist()
    names = {e.filename.partition("/")[2] for e in entries}
    assert {e.compress_type for e in entries} == {zipfile.ZIP_STORED}
    assert len({e.filename.partition("/")[0] for e in entries}) == 1
    assert {"models/model.json", ".data/version", "byteorder",
            "data/constants/model_constants_config.json"} <= names
    assert not [n for n in names if n.startswith(("data/weights/",
                                                  "data/sample_inputs/"))]


def test_program_is_the_training_form_and_is_read_by_torch(package):
    graph = graph_of(package / "stages/1.eval.pt2")

    targets = [n["target"] for n in graph["graph_module"]["graph"]["nodes"]]
    assert graph["verifiers"] == ["TRAINING"]
    assert "torch.ops.aten.linear.default" in targets


def test_buffers_that_do_not_persist_stay_in_the_program(package):
    reader = records(package / "stages/0.eval.pt2")
    constants = reader.get_record("data/constants/tensor_0")
    weights, _ = weights_of(package, 0)

    assert torch.equal(torch.frombuffer(bytearray(constants), dtype=torch.float32),
                       torch.full((8,), 2.0))
    assert "cache" not in weights


def test_weights_are_written_once_by_full_name(package):
    weights, metadata = weights_of(package, 0)

    assert sorted(weights) == ["again.weight", "linear.bias", "linear.weight",
                               "shift"]
    assert metadata == {"alias:embed.weight": "again.weight"}


def test_every_parameter_of_the_program_has_its_weight(package):
    for stage, kind in ((0, "eval"), (0, "step"), (1, "eval")):
        weights, metadata = weights_of(package, stage)
        names = {*weights, *(k.removeprefix("alias:") for k in metadata)}
        graph = graph_of(package / f"stages/{stage}.{kind}.pt2")
        for spec in graph["graph_module"]["signature"]["input_specs"]:
            if "parameter" in spec:
                assert spec["parameter"]["parameter_name"] in names
            if "buffer" in spec and spec["buffer"]["persistent"]:
                assert spec["buffer"]["buffer_name"] in names


def test_step_program_drops_out_and_eval_program_does_not(package):
    def trains(kind):
        graph = graph_of(package / f"stages/1.{kind}.pt2")
        (node,) = [n for n in graph["graph_module"]["graph"]["nodes"]
                   if n["target"] == "torch.ops.aten.dropout.default"]
        return [i["arg"]["as_bool"] for i in node["inputs"] if i["name"] == "train"]

    assert (trains("eval"), trains("step")) == ([False], [True])


def test_loss_of_ones_own_is_a_program_with_weights(tmp_path):
    tokens = torch.randint(20, (3, 4))

    package = export_pipeline(
        [nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))], {"tokens": tokens},
        tmp_path, "scored", "1", targets={"targets": tokens},
        loss=LossProgram(Margin(), ["output", "targets"]))

    contract = contract_of(package)
    assert contract["loss"] == {
        "kind": "program", "inputs": ["output", "targets"],
        "program": {"kind": "export", "file": "loss/loss.pt2"},
        "weights": "loss/loss.safetensors"}
    assert {"loss/loss.pt2", "loss/loss.safetensors"} <= set(contract["files"])
    assert "torch.ops.aten.gather.default" in {
        n["target"] for n in
        graph_of(package / "loss/loss.pt2")["graph_module"]["graph"]["nodes"]}


def test_same_model_gives_the_same_weights_and_contract_apart_from_programs(tmp_path):
    model = nn.Linear(3, 2)
    packages = [export_pipeline([model], {"x": torch.ones(2, 3)}, tmp_path / r,
                                "m", "1") for r in "ab"]

    first, second = (contract_of(p) for p in packages)
    assert first["files"]["weights/0.safetensors"] == (
        second["files"]["weights/0.safetensors"])
    assert {**first, "files": 0} == {**second, "files": 0}


def test_modules_are_left_as_they_were(tmp_path):
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5).eval()).train()
    model[1].training = False
    state = torch.random.get_rng_state()

    export_pipeline([model], {"x": torch.ones(2, 3)}, tmp_path, "m", "1")

    assert (model.training, model[0].training, model[1].training) == (
        True, True, False)
    assert all(p.grad is None and p.requires_grad for p in model.parameters())
    assert torch.equal(torch.random.get_rng_state(), state)
