"""One stage through torch.export, with the sizes of its outputs."""

import contextlib
import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.utils import _pytree as pytree

from pipestage.export.errors import ExportError, explain
from pipestage.export.size_text import (
    DATA_DEPENDENT,
    SizeExpr,
    linear_in,
    size_text,
)
from pipestage.export.spec import Size
from pipestage.export.tensors import TensorSpec, dtype_name, flatten_output

# What a worker runs besides aten: arithmetic of sizes, and blocks under no_grad
# or autocast.
_NAMESPACES = ("aten", "pipestage")
_SIZE_ARITHMETIC = frozenset(
    [f"_operator.{name}" for name in (
        "add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "neg", "pos", "eq",
        "ne", "lt", "le", "gt", "ge", "and_", "or_", "lshift", "rshift",
        "getitem")] +  # getitem: of a tuple, no operation in the file
    [f"torch.sym_{name}" for name in (
        "not", "ite", "max", "min", "float", "int", "sqrt")] +
    ["math.trunc"])
_BLOCKS = ("wrap_with_set_grad_enabled", "wrap_with_autocast")


@dataclasses.dataclass(frozen=True)
class TracedProgram:
    """An exported program and what its outputs look like."""

    program: ExportedProgram
    keyword_inputs: list[str]  # in the order the program takes them
    output_dtypes: list[torch.dtype]
    output_shapes: list[tuple[SizeExpr, ...]]
    output_names: list[str] | None  # keys, if it returns a dict


@dataclasses.dataclass(frozen=True)
class Call:
    """Arguments to trace with: what they are, and an example of each."""

    positional: Sequence[TensorSpec]
    keywords: Mapping[str, TensorSpec]
    examples: Sequence[torch.Tensor]  # positional ones, then keywords
    sizes: Mapping[str, Size]

    @property
    def args(self) -> tuple[torch.Tensor, ...]:
        return tuple(self.examples[:len(self.positional)])

    @property
    def kwargs(self) -> dict[str, torch.Tensor]:
        return dict(zip(self.keywords, self.examples[len(self.positional):]))

    @property
    def specs(self) -> list[TensorSpec]:
        return [*self.positional, *self.keywords.values()]


@contextlib.contextmanager
def mode(module: nn.Module, train: bool) -> Iterator[None]:
    """All of `module` in train or eval mode; what it was before is restored."""
    before = {m: m.training for m in module.modules()}
    module.train(train)
    try:
        yield
    finally:
        for submodule, training in before.items():
            submodule.training = training


def bind(what: str, module: nn.Module, call: Call) -> dict[str, Any]:
    """Which parameter of `module.forward` gets which argument (by position in specs)."""
    positions = list(range(len(call.positional)))
    keywords = {n: len(positions) + i for i, n in enumerate(call.keywords)}
    signature = inspect.signature(module.forward)
    try:
        return dict(signature.bind(*positions, **keywords).arguments)
    except TypeError as error:
        given = ", ".join([*map(str, call.positional),
                           *(f"{s} (keyword)" for s in call.keywords.values())])
        raise ExportError(
            f"{what} takes {signature} but gets ({given}): {error}") from error


def trace(what: str, module: nn.Module, call: Call, *, last: bool,
          train: bool = False, check_operators: bool = True) -> TracedProgram:
    """Exports `module`, whose arguments are as `call` says.

    Without `check_operators`, operators that no worker runs are let through.

    Raises:
      ExportError: torch.export refused it, or its outputs cannot be described.
    """
    bound = bind(what, module, call)
    error: Exception | None = None
    for dims in _dimension_choices(call):
        try:
            traced = _trace_with(what, module, call, bound, dims, last, train)
            if check_operators:
                _check_operators(what, traced.program)
            return traced
        except torch._dynamo.exc.UserError as refused:
            error = error or refused
            names = {name: str(size_text(size)) for size, name in dims.names()}
    raise ExportError(explain(what, error, names)) from error


class _Dims:
    """Dimensions of torch.export for the sizes of a call's arguments."""

    def __init__(self, call: Call, derive_all: bool):
        self._dims: dict[sympy.Expr, Any] = {}
        self._fresh: dict[sympy.Expr, str] = {}
        sizes = [s for spec in call.specs for s in spec.shape if not s.is_Integer]
        direct = {s for s in sizes if s.is_Symbol}
        for size in sizes:
            if size not in self._dims:
                self._dims[size] = self._make(size, direct, derive_all, call.sizes)

    def _make(self, size: sympy.Expr, direct: set[sympy.Expr],
              derive_all: bool, sizes: Mapping[str, Size]) -> Any:
        if size.is_Symbol:
            bounds = sizes.get(size.name, Size())
            return Dim(size.name, min=bounds.min, max=bounds.max)
        linear = linear_in(size)
        if linear is not None and (derive_all or linear[1] in direct):
            a, root, b = linear
            dim = self._dims.get(root)
            if dim is None:
                dim = self._dims[root] = self._make(root, direct, False, sizes)
            return a * dim + b if b else a * dim
        self._fresh[size] = f"size{len(self._fresh)}"
        return Dim(self._fresh[size], min=1)

    def of(self, spec: TensorSpec) -> dict[int, Any]:
        return {axis: self._dims[size] for axis, size in enumerate(spec.shape)
                if not size.is_Integer}

    def names(self) -> list[tuple[sympy.Expr, str]]:
        return [(size, self._fresh.get(size, getattr(size, "name", "")))
                for size in self._dims]

    @property
    def has_fresh(self) -> bool:
        return bool(self._fresh)


def _dimension_choices(call: Call) -> Iterator[_Dims]:
    """A boundary size such as 2*rows is an open size of its own, where that
    suffices, else derived from rows."""
    dims = _Dims(call, derive_all=False)
    yield dims
    if dims.has_fresh:
        yield _Dims(call, derive_all=True)


def _trace_with(what: str, module: nn.Module, call: Call, bound: dict[str, Any],
                dims: _Dims, last: bool, train: bool) -> TracedProgram:
    dynamic = {
        name: pytree.tree_map(lambda i: dims.of(call.specs[i]), value)
        for name, value in bound.items()
    }
    try:
        with mode(module, train):
            program = torch.export.export(
                module, call.args, call.kwargs, dynamic_shapes=dynamic,
                strict=False)
    except torch._dynamo.exc.UserError:
        raise
    except Exception as error:
        raise ExportError(explain(what, error, {})) from error
    _check_state(what, program)
    symbols = _symbols(program, call)
    dtypes, shapes = _outputs(what, program, symbols)
    return TracedProgram(program, _keyword_order(what, program, call), dtypes,
                         shapes, _output_names(what, program, last))


def _placeholders(program: ExportedProgram) -> list[torch.fx.Node]:
    user = set(program.graph_signature.user_inputs)
    return [n for n in program.graph.nodes
            if n.op == "placeholder" and n.name in user]


def _input_order(program: ExportedProgram) -> tuple[tuple[int, ...], dict[str, int]]:
    spec = program.call_spec.in_spec
    return pytree.tree_unflatten(list(range(spec.num_leaves)), spec)


def _keyword_order(what: str, program: ExportedProgram, call: Call) -> list[str]:
    args, kwargs = _input_order(program)
    if list(args) != list(range(len(call.positional))):
        raise ExportError(f"{what}: torch.export changed the order of inputs")
    return sorted(kwargs, key=kwargs.__getitem__)


def _symbols(program: ExportedProgram, call: Call) -> dict[sympy.Expr, sympy.Expr]:
    """torch's symbols of the input sizes in terms of the contract's."""
    order = _keyword_order("", program, call)
    specs = [*call.positional, *(call.keywords[n] for n in order)]
    symbols: dict[sympy.Expr, sympy.Expr] = {}
    for node, spec in zip(_placeholders(program), specs):
        for theirs, ours in zip(node.meta["val"].shape, spec.shape):
            if not isinstance(theirs, torch.SymInt):
                continue
            expr = theirs.node.expr
            if expr.is_Symbol:
                symbols[expr] = ours
            elif linear := linear_in(expr):
                # Derived (2*s0): s0 is the name that our size is made of.
                symbols.setdefault(linear[1], *ours.free_symbols)
    return symbols


def _outputs(what: str, program: ExportedProgram,
             symbols: Mapping[sympy.Expr, sympy.Expr]
             ) -> tuple[list[torch.dtype], list[tuple[SizeExpr, ...]]]:
    (output,) = [n for n in program.graph.nodes if n.op == "output"]
    dtypes, shapes = [], []
    for place, node in enumerate(output.args[0]):
        value = node.meta.get("val") if isinstance(node, torch.fx.Node) else node
        if not isinstance(value, torch.Tensor):
            raise ExportError(
                f"{what} returns {value!r} at {place}; every output must be a "
                "tensor")
        where = f"output {place} of {what}"
        dtype_name(where, value.dtype)
        dtypes.append(value.dtype)
        shapes.append(tuple(_size(where, s, symbols) for s in value.shape))
    return dtypes, shapes


def _size(where: str, size: int | torch.SymInt,
          symbols: Mapping[sympy.Expr, sympy.Expr]) -> SizeExpr:
    if not isinstance(size, torch.SymInt):
        return sympy.Integer(size)
    expr = sympy.sympify(size.node.expr)
    if any(s not in symbols for s in expr.free_symbols):
        return DATA_DEPENDENT
    ours = expr.xreplace(dict(symbols))
    try:
        size_text(ours)
    except ExportError as error:
        raise ExportError(f"{where}: {error}") from error
    return ours


def _output_names(what: str, program: ExportedProgram,
                  last: bool) -> list[str] | None:
    (output,) = [n for n in program.graph.nodes if n.op == "output"]
    tensors = [torch.empty(0)] * len(output.args[0])
    _, names = flatten_output(
        what, pytree.tree_unflatten(tensors, program.call_spec.out_spec), last)
    return names


def _check_operators(what: str, program: ExportedProgram) -> None:
    for graph in _graphs(program.graph_module):
        for node in graph.nodes:
            if node.op == "call_function":
                _check_operator(what, node.target)


def _graphs(module: torch.fx.GraphModule) -> Iterator[torch.fx.Graph]:
    for submodule in module.modules():
        if isinstance(submodule, torch.fx.GraphModule):
            yield submodule.graph


def _check_operator(what: str, target: Any) -> None:
    if isinstance(target, torch._ops.OpOverload):
        if target.namespace in _NAMESPACES:
            return
        name = str(target)
    elif isinstance(target, torch._ops.HigherOrderOperator):
        if target.name() in _BLOCKS:
            return
        name = target.name()
    else:
        name = (f"{getattr(target, '__module__', '')}."
                f"{getattr(target, '__name__', target)}")
        if name in _SIZE_ARITHMETIC:
            return
    raise ExportError(
        f"{what} uses {name}, which workers do not run; they run aten's operators")


def _check_state(what: str, program: ExportedProgram) -> None:
    for name, tensor in program.state_dict.items():
        dtype_name(f"'{name}' of {what}", tensor.dtype)
        if tensor.layout is not torch.strided:
            raise ExportError(f"'{name}' of {what} is not a dense tensor")
    for name, value in program.constants.items():
        if not isinstance(value, torch.Tensor):
            raise ExportError(
                f"{what} holds '{name}', a {type(value).__name__}, which a "
                "package cannot carry")
