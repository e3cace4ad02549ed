"""Exports small models and records what they compute, for the tests of worker/torch.

    python make_fixtures.py OUT.safetensors

One file holds all cases. Of case C: `C/archive` is the .pt2 file, stripped as packages
have it; `C/weight/<name>` its parameters and buffers; `C/<run>/in/<i>`,
`C/<run>/keyword/<name>` and `C/<run>/out/<i>` the tensors of one run. A case that must
be refused has `C/refused`, the text its error must contain, in place of runs.
"""

import io
import json
import math
import sys
import zipfile

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

ROWS = torch.export.Dim("rows", min=1, max=4096)
SEED = 123


def strip(archive: bytes) -> bytes:
    """The archive without weights and example inputs."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, \
            zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target:
        for entry in source.namelist():
            name = entry.split("/", 1)[1]
            if not name.startswith(("data/weights/", "data/sample_inputs/")):
                target.writestr(zipfile.ZipInfo(f"stage/{name}"), source.read(entry))
    return out.getvalue()


def rewrite(archive: bytes, edits, deflate=()) -> bytes:
    """The archive with records changed: by the end of their names, what makes the
    new bytes of the old. Those in `deflate` are compressed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, \
            zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as target:
        for entry in source.namelist():
            data = source.read(entry)
            for end, edit in edits.items():
                if entry.endswith(end):
                    changed = edit(data)
                    assert changed != data, (entry, end)
                    data = changed
            kind = zipfile.ZIP_DEFLATED if entry.endswith(tuple(deflate)) \
                else zipfile.ZIP_STORED
            target.writestr(zipfile.ZipInfo(entry), data, kind)
    return out.getvalue()


def text(value: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(value), dtype=torch.uint8)


class Fixtures:
    """What is to be written."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}

    def _export(self, case, model, example, keywords, dynamic, decompose=False):
        torch.manual_seed(SEED)
        shapes = None
        if dynamic:
            rows = lambda t: {0: ROWS} if t.dim() else {}  # noqa: E731
            shapes = (*(rows(t) for t in example),
                      *(rows(t) for t in keywords.values()))
            names = list(dict.fromkeys(
                model.forward.__code__.co_varnames[1:1 + len(shapes)]))
            shapes = dict(zip(names, shapes))
        program = torch.export.export(model, example, keywords,
                                      dynamic_shapes=shapes)
        if decompose:
            program = program.run_decompositions({})
        buffer = io.BytesIO()
        torch.export.save(program, buffer)
        self.tensors[f"{case}/archive"] = text(strip(buffer.getvalue()))
        state = dict(model.named_parameters(remove_duplicate=False))
        buffers = dict(model.named_buffers(remove_duplicate=False))
        state |= {n: b for n, b in buffers.items() if n in model.state_dict()}
        for name, tensor in state.items():
            self.tensors[f"{case}/weight/{name}"] = \
                tensor.detach().clone().contiguous()

    def add(self, case, model, example, *more, keywords=None, dynamic=True,
            train=False):
        """A model, exported with `example` and run on it and on `more` inputs."""
        keywords = keywords or {}
        model = model.train(train)
        self._export(case, model, example, keywords, dynamic)
        for run, inputs in enumerate((example, *more)):
            torch.manual_seed(SEED)
            with torch.no_grad():
                outputs = model(*inputs, **keywords)
            if isinstance(outputs, torch.Tensor):
                outputs = (outputs,)
            record = {f"in/{i}": t for i, t in enumerate(inputs)}
            record |= {f"keyword/{n}": t for n, t in keywords.items()}
            record |= {f"out/{i}": t
                       for i, t in enumerate(torch.utils._pytree.tree_leaves(outputs))}
            for name, tensor in record.items():
                self.tensors[f"{case}/{run}/{name}"] = \
                    tensor.detach().clone().contiguous()

    def refuse(self, case, message, model, *example, train=False, decompose=False):
        self._export(case, model.train(train), example, {}, True, decompose)
        self.tensors[f"{case}/refused"] = text(message.encode())


    def tamper(self, case, message, model, example, edits, deflate=()):
        """An archive that no export writes: see rewrite."""
        self._export(case, model.eval(), (example,), {}, False)
        archive = self.tensors[f"{case}/archive"].numpy().tobytes()
        self.tensors[f"{case}/archive"] = text(rewrite(archive, edits, deflate))
        self.tensors[f"{case}/refused"] = text(message.encode())


def model(forward, **members):
    """A module with this forward and these members."""
    class Model(nn.Module):
        pass
    Model.forward = forward
    made = Model()
    for name, member in members.items():
        if isinstance(member, torch.Tensor) and not isinstance(member, nn.Parameter):
            made.register_buffer(name, member)
        else:
            setattr(made, name, member)
    return made


class Block(nn.Module):
    """A transformer block whose embedding is tied to its head."""

    def __init__(self, vocabulary=31, width=32, heads=4, tokens=10):
        super().__init__()
        self.heads = heads
        self.embed = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(tokens, width) * 0.1)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                 nn.Dropout(0.1), nn.Linear(4 * width, width))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens) + self.positions
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        split = lambda t: t.view(rows, length, self.heads, -1).transpose(1, 2)  # noqa: E731
        y = F.scaled_dot_product_attention(split(q), split(k), split(v),
                                           is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(rows, length, width))
        x = x + self.mlp(self.norm2(x))
        return self.head(x)


class Convolution(nn.Module):
    """Convolutions with batch and group norms, in-place activations and pooling."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.bn.running_mean.normal_()
        self.bn.running_var.uniform_(0.5, 2)
        self.conv2 = nn.Conv2d(8, 8, 3, stride=2, groups=2)
        self.norm = nn.GroupNorm(2, 8)
        self.relu = nn.ReLU(inplace=True)
        self.batch_only = nn.BatchNorm2d(8, track_running_stats=False)

    def forward(self, image):
        x = self.relu(self.bn(self.conv1(image)))
        x = F.silu(self.norm(self.conv2(x)))
        x = F.max_pool2d(self.batch_only(x), 2)
        x = F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)
        return F.adaptive_avg_pool2d(x, (2, 2)).flatten(1)


def add_arguments(fx):
    """Every kind of argument."""
    x = lambda rows: (torch.randn(rows, 6),)  # noqa: E731
    fx.add("scalars_to_tensor_arguments",
           model(lambda self, x: (x + 1, x * 2.5, 3 - x, x > 0, x ** 2, x // 2,
                                  (x > 0) * True)), x(4), x(1), x(9))
    fx.add("infinite_floats",
           model(lambda self, x: x.masked_fill(x < 0, -math.inf).clamp(max=math.inf)
                 .nan_to_num(float("nan"), posinf=1.0, neginf=-2.0)), x(4))
    fx.add("index_with_none",
           model(lambda self, x: (x[:, torch.tensor([0, 2, 5])], x[:, None, 1:4],
                                  x[torch.tensor([0, 1]), torch.tensor([3, 4])],
                                  x[..., -1])), x(4), x(7))
    fx.add("lists_of_tensors",
           model(lambda self, x: (torch.cat([x, x * 2], 1), *x.split([2, 4], 1),
                                  torch.stack(x.unbind(1), 0), *x.chunk(3, 1))),
           x(4), x(2))
    fx.add("einsum", model(lambda self, x: torch.einsum("bi,ij,bj->b", x, self.w, x),
                           w=nn.Parameter(torch.randn(6, 6))), x(4), x(5))
    fx.add("tuples_of_tensors",
           model(lambda self, x: (*torch.topk(x, 2), x.max(1)[0], *torch.sort(x))),
           x(4), x(3))
    fx.add("dtypes", model(lambda self, x: (
        x.to(torch.bfloat16), x.half(), x.double(), x.to(torch.int32), x.long(),
        x.to(torch.uint8), x.to(torch.int8), x.to(torch.int16), x > 0)),
        (torch.rand(4, 6) * 100,), (torch.rand(2, 6) * 100,))
    fx.add("factories", model(lambda self, x: (
        x + torch.arange(6), x * torch.ones(6, dtype=torch.float64),
        torch.zeros(x.shape[0], 2), torch.full((3,), 7),
        torch.tril(torch.ones(4, 4)), torch.tensor([1.5, -2.0]) * 2)), x(4), x(3))
    fx.add("memory_formats", model(lambda self, x: x.reshape(-1, 1, 2, 3)
           .contiguous(memory_format=torch.channels_last).clone()), x(4))
    fx.add("complex_inside", model(lambda self, x: torch.view_as_real(
        torch.view_as_complex(x.reshape(-1, 3, 2)) * (1 + 2j))), x(4))
    fx.add("lazy_conjugate_and_sign", model(lambda self, x: (
        torch.view_as_complex(x.reshape(-1, 3, 2)).conj().imag,)), x(4))
    expanded = model(lambda self, x: x + self.c)
    expanded.register_buffer("c", torch.arange(6.0).expand(3, 6), persistent=False)
    fx.add("expanded_constant", expanded, (torch.randn(3, 6),), dynamic=False)
    fx.add("keywords", model(lambda self, x, *, b, a: x * a + b), x(4),
           keywords={"b": torch.randn(4, 6), "a": torch.tensor(3.0)})


def add_sizes(fx):
    """Numbers computed from sizes."""
    x = lambda rows: (torch.randn(rows, 6),)  # noqa: E731
    def integers(self, x):
        n = x.shape[0]
        return (x.reshape(n * 2, 3), x.new_zeros(n // 2 + 2, n % 3 + 2),
                x.new_zeros(torch.sym_max(n, 3) + n ** 2), x + n, x * (n > 3),
                x.new_zeros(torch.sym_min(n, 5) * 2 - 1), torch.arange(n) * -n)
    fx.add("integer_sizes", model(integers), x(4), x(1), x(9))
    def floats(self, x):
        n = x.shape[0]
        return x * (n / 3), x / n ** 0.5, x + n * 0.25
    fx.add("float_sizes", model(floats), x(4), x(1), x(9))
    fx.add("data_dependent_sizes", model(lambda self, x: x[x[:, 0] > 0] * 2),
           x(8), x(5))
    fx.add("linear", nn.Linear(6, 3), x(4), x(1))


def add_layers(fx):
    tokens = lambda rows: (torch.randint(0, 31, (rows, 10)),)  # noqa: E731
    fx.add("transformer_block", Block(), tokens(4), tokens(1), tokens(9))
    image = lambda rows: (torch.randn(rows, 3, 12, 12),)  # noqa: E731
    fx.add("convolution", Convolution(), image(4), image(2))
    fx.add("encoder_layer", nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
           (torch.randn(4, 5, 16),), (torch.randn(2, 5, 16),))
    gru = nn.GRU(6, 8, batch_first=True)
    fx.add("gru", model(lambda self, x: self.gru(x)[0], gru=gru),
           (torch.randn(4, 5, 6),), (torch.randn(3, 5, 6),))
    fx.add("bfloat16", nn.Linear(6, 3).to(torch.bfloat16),
           (torch.randn(4, 6).to(torch.bfloat16),))
    fx.add("channels_last_weight",
           nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last), image(4))
    mask = torch.randn(4, 5, 5)
    fx.add("attention_with_mask", model(
        lambda self, x, mask: F.scaled_dot_product_attention(x, x, x, attn_mask=mask)),
        (torch.randn(4, 5, 8), mask))


def add_blocks(fx):
    x = lambda rows: (torch.randn(rows, 6),)  # noqa: E731
    def no_grad(self, x):
        with torch.no_grad():
            y = self.linear(x) * 2
            z = y.relu()
        return y + x[:, :3], z
    fx.add("no_grad_block", model(no_grad, linear=nn.Linear(6, 3)), x(4), x(2))
    def autocast(self, x):
        y = self.linear(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = self.linear(x)
            with torch.autocast("cpu", enabled=False):
                w = self.linear(x)
        return y, z, w
    fx.add("autocast_block", model(autocast, linear=nn.Linear(6, 3)), x(4), x(2))


def add_outputs(fx):
    x = lambda rows: (torch.randn(rows, 6),)  # noqa: E731
    fx.add("scalar_and_bool_outputs",
           model(lambda self, x: {"mean": x.mean(), "flag": (x > 0).any(),
                                  "count": (x > 0).sum()}), x(4))
    fx.add("outputs_that_alias", model(
        lambda self, x: (x, x.t(), self.w, x[:2], self.w.expand(3, 6), self.c),
        w=nn.Parameter(torch.randn(6)), c=torch.arange(5)), x(4))
    fx.add("same_output_twice", model(lambda self, x: (x + 1,) * 2), x(4))
    made = model(lambda self, x: x * self.c + self.p + torch.tensor([1.0] * 6),
                 p=torch.randn(6))
    made.register_buffer("c", torch.randn(6), persistent=False)
    fx.add("constants_in_the_archive", made, x(4), x(2))
    fx.add("in_place_on_intermediates", model(
        lambda self, x: (x * 2).add_(1).mul_(self.w).relu_(),
        w=nn.Parameter(torch.randn(6))), x(4))
    fx.add("random", model(lambda self, x: x + torch.rand_like(x)), x(4))


def add_losses(fx):
    logits = torch.randn(4, 5, 11) * 3
    targets = torch.randint(0, 11, (4, 5))
    targets[1, 2:] = -100
    def losses(self, logits, targets):
        flat = F.cross_entropy(logits.flatten(0, 1), targets.flatten(),
                               reduction="none")
        return flat.view(-1, 5), targets != -100
    fx.add("cross_entropy", model(losses), (logits, targets),
           (torch.randn(7, 5, 11), torch.randint(0, 11, (7, 5))))
    fx.add("squared_error", model(
        lambda self, x, y: F.mse_loss(x, y, reduction="none")),
        (torch.randn(4, 6), torch.randn(4, 6)))


class AddsToItsInput(nn.Module):
    """Must be refused."""

    def forward(self, x):
        x.add_(1)
        return x * 2


class Counting(nn.Module):
    """Counts its calls in a buffer, which an evaluation must not show."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.dropout(self.linear(x)) + self.calls, x


def add_script(fx):
    """TorchScript archives, whose names begin with script."""
    counting = torch.jit.script(Counting().train())
    buffer = io.BytesIO()
    torch.jit.save(counting, buffer)
    fx.tensors["script_counting/archive"] = text(buffer.getvalue())
    x = torch.randn(4, 6)
    with torch.no_grad():
        first, second = counting.eval()(x)
    fx.tensors |= {"script_counting/0/in/0": x, "script_counting/0/out/0": first,
                   "script_counting/0/out/1": second.clone()}


def add_refused(fx):
    x = torch.randn(4, 6)
    fx.refuse("dropout_in_train_mode", "exported in train mode",
              nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.1)), x, train=True)
    fx.refuse("batch_norm_in_train_mode", "exported in train mode",
              nn.BatchNorm1d(6), x, train=True)
    fx.refuse("writes_to_an_input", "writes to input x", AddsToItsInput(), x)
    def add_to_view(self, x):
        x[:, :2].t().mul_(2)
        return x * 2
    fx.refuse("writes_to_a_view_of_an_input", "writes to input x",
              model(add_to_view), x)
    def count(self, x):
        self.calls.add_(1)
        return x * self.calls
    fx.refuse("writes_to_a_buffer", "writes to buffer calls",
              model(count, calls=torch.zeros(())), x)
    fx.refuse("decomposed", "not TRAINING", nn.Linear(6, 6), x, decompose=True)
    fx.refuse("higher_order", "higher-order operator", model(
        lambda self, x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1,
                                   (x,))), x)
    fx.refuse("foreign_namespace", "namespace pipestage_test", model(
        lambda self, x: torch.ops.pipestage_test.double(x)), x)


def in_constant(change):
    """An edit of the first constant's description."""
    def edit(data):
        config = json.loads(data)
        change(next(iter(config["config"].values()))["tensor_meta"])
        return json.dumps(config).encode()
    return {"model_constants_config.json": edit}


def in_program(old, new):
    return {"models/model.json": lambda data: data.replace(old.encode(), new.encode())}


def add_hostile(fx):
    """Archives made to read or write where they must not, or to exhaust memory."""
    x = torch.randn(6)
    constant = lambda: model(lambda self, x: x + self.c)  # noqa: E731
    def with_constant(value):
        made = constant()
        made.register_buffer("c", value, persistent=False)
        return made
    number = lambda n: {"as_int": n}  # noqa: E731
    numbers = lambda *n: [number(i) for i in n]  # noqa: E731
    c = torch.arange(6.0)
    for case, message, change in (
            ("constant_without_strides", "1 sizes, 0 strides",
             {"strides": []}),
            ("constant_at_a_negative_offset", "offset -8",
             {"storage_offset": number(-8)}),
            ("constant_at_the_last_offset", "overflows",
             {"storage_offset": number(2**63 - 1)}),
            ("constant_beyond_its_record", "has 24 bytes, but the tensor reaches to 28",
             {"sizes": numbers(7)}),
            ("constant_whose_strides_overflow", "overflows",
             {"sizes": numbers(6, 6), "strides": numbers(2**62, 2**62)}),
            ("constant_of_too_many_elements", "overflows",
             {"sizes": numbers(2**40, 2**40), "strides": numbers(0, 0)})):
        fx.tamper(case, message, with_constant(c.clone()), x,
                  in_constant(lambda meta, change=change: meta.update(change)))
    fx.tamper("deflated_bomb", "declares 67108864 bytes", with_constant(c.clone()), x,
              {"tensor_0": lambda data: bytes(1 << 26)}, deflate=("tensor_0",))

    strided = lambda: model(lambda self, x: torch.as_strided(x, (2, 3), (1, 1)))  # noqa: E731
    fx.tamper("unchecked_view", "_reshape_alias.default is not admitted", strided(), x,
              in_program("torch.ops.aten.as_strided.default",
                         "torch.ops.aten._reshape_alias.default"))
    fx.tamper("sparse", "to_sparse.default is not admitted",
              model(lambda self, x: x.sin()), x,
              in_program("torch.ops.aten.sin.default", "torch.ops.aten.to_sparse.default"))
    fx.tamper("unchecked_segments", "unsafe can turn its checks off",
              model(lambda self, x: torch.segment_reduce(
                  x, "sum", lengths=torch.tensor([2, 4]))), x, {})
    fx.tamper("tensors_among_numbers", "is no number",
              model(lambda self, x: x + self.y, y=nn.Parameter(torch.ones(6))), x,
              in_program("torch.ops.aten.add.Tensor", "_operator.add"))
    complex_number = '"as_complex": {"real": 2.0, "imag": 1.0}'
    fx.tamper("complex_number_for_a_float", "a complex number for argument eps",
              model(lambda self, x: F.layer_norm(x, (6,), eps=0.5)), x,
              in_program('"as_float": 0.5', complex_number))
    fx.tamper("complex_number_for_floats", "a complex number for argument scale_factors",
              model(lambda self, x: F.interpolate(x, scale_factor=2.0, mode="bilinear")),
              torch.randn(1, 1, 2, 2),
              in_program('"as_floats": [2.0, 2.0]', complex_number))


def define_foreign_operator():
    library = torch.library.Library("pipestage_test", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
    torch.library.register_fake("pipestage_test::double", lambda x: x * 2,
                                lib=library)
    return library


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    # Eager's fast path for encoder layers rounds otherwise; export does not take it.
    torch.backends.mha.set_fastpath_enabled(False)
    library = define_foreign_operator()
    fx = Fixtures()
    for add in (add_arguments, add_sizes, add_layers, add_blocks, add_outputs,
                add_losses, add_script, add_refused, add_hostile):
        add(fx)
    del library
    save_file(fx.tensors, sys.argv[1], {"torch": json.dumps(torch.__version__)})


if __name__ == "__main__":
    main()
