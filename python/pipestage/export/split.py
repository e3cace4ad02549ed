"""One module cut into stages through torch.distributed.pipelining."""

import contextlib
import dataclasses
import operator
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import fx, nn
from torch.distributed.pipelining import Pipe, SplitPoint
from torch.distributed.pipelining import _IR as pipelining_ir

from pipestage.export.checking import example_sizes
from pipestage.export.errors import ExportError
from pipestage.export.spec import PipelineSpec
from pipestage.export.tensors import example_of
from pipestage.export.tracing import Call, mode, trace
from pipestage.export.weights import refuse_shared

_STAGE_PREFIX = "submod_pp_"


def split_spec(spec: PipelineSpec) -> PipelineSpec:
    """`spec` with its module cut into stages.

    The stages run the module's operations, with its parameters under their own
    names. Inputs that later stages need become keyword inputs of theirs.

    Raises:
      ExportError: the module cannot be traced or cut there.
    """
    if spec.module is None or spec.stages:
        raise ExportError("give either stages, or module and split_points")
    if spec.keyword_inputs or spec.positional is not None or spec.train_stages:
        raise ExportError(
            "keyword_inputs, positional and train_stages come from the split "
            "when a module is given")
    points = _split_points(spec)
    cut = _cut(spec, points, train=False)
    train_stages = _cut(spec, points, train=True).stages if spec.train else None
    return dataclasses.replace(
        spec, module=None, split_points=(), train=False, stages=cut.stages,
        positional=cut.positional, keyword_inputs=cut.keyword_inputs,
        train_stages=train_stages, reference=spec.reference or spec.module)


@dataclasses.dataclass(frozen=True)
class _Cut:
    stages: list[nn.Module]
    positional: list[str]
    keyword_inputs: dict[int, list[str]]


def _split_points(spec: PipelineSpec) -> dict[str, SplitPoint]:
    given = spec.split_points
    if not isinstance(given, Mapping):
        given = {name: SplitPoint.BEGINNING for name in given}
    if not given:
        raise ExportError("split_points names no submodule to cut at")
    modules = dict(spec.module.named_modules())
    for name, point in given.items():
        if name not in modules or not name:
            raise ExportError(
                f"split_points names '{name}'; the module has no such submodule")
        if not isinstance(point, SplitPoint):
            raise ExportError(f"split point of '{name}' is {point!r}, no SplitPoint")
    return dict(given)


@contextlib.contextmanager
def _annotated(module: nn.Module,
               points: Mapping[str, SplitPoint]) -> Iterator[None]:
    """Marks the split points in `module`, which is put back as it was."""
    pipelining_ir.annotate_split_points(module, dict(points))
    try:
        yield
    finally:
        for name in points:
            marked = module.get_submodule(name)
            marked.__dict__.pop("forward", None)
            marked.__dict__.pop("_orig_forward", None)


@contextlib.contextmanager
def _aliases_apart(module: nn.Module) -> Iterator[None]:
    """Gives every name of a tensor an object of its own over the same storage.

    The split looks tensors up by identity and takes any of their names, in the
    order of a set, also one that the stage does not have. Who shares storage is
    still seen when the stages' weights are looked at.
    """
    seen: set[int] = set()
    replaced: list[tuple[dict, str, torch.Tensor]] = []
    for owner in module.modules():
        for tensors in (owner._parameters, owner._buffers):
            for name, tensor in tensors.items():
                if tensor is None:
                    continue
                if id(tensor) in seen:
                    replaced.append((tensors, name, tensor))
                    tensors[name] = _alias_of(tensor)
                seen.add(id(tensor))
    try:
        yield
    finally:
        for tensors, name, tensor in replaced:
            tensors[name] = tensor


def _alias_of(tensor: torch.Tensor) -> torch.Tensor:
    if isinstance(tensor, nn.Parameter):
        return nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
    return tensor.detach()


def _cut(spec: PipelineSpec, points: Mapping[str, SplitPoint],
         train: bool) -> _Cut:
    module, specs = spec.module, spec.input_specs()
    sizes = example_sizes(spec, {**specs, **spec.target_specs()})
    examples = [example_of(s, spec.inputs[n], sizes) for n, s in specs.items()]
    call = Call([], specs, examples, spec.sizes)
    with _annotated(module, points), _aliases_apart(module):
        traced = trace("the module", module, call, last=True, train=train,
                       check_operators=False)
        order = list(traced.keyword_inputs)
        with mode(module, train):
            pipe = _split(module, traced.program)
    if pipe.num_stages != len(points) + 1:
        raise ExportError(
            f"{len(points)} split points gave {pipe.num_stages} stages: a split "
            "point before the first or after the last operation makes no stage")
    _check_replicated(pipe, spec.tied)
    cut = _read_graph(pipe.split_gm, order)
    for stage in cut.stages[:-1]:
        _name_outputs(stage, None)
    _name_outputs(cut.stages[-1], traced.output_names)
    return cut


def _split(module: nn.Module, program: torch.export.ExportedProgram) -> Pipe:
    try:
        return Pipe._from_traced(module, program, split_policy=_localise_sizes)
    except AssertionError as error:
        if "not found in model" not in str(error):
            raise
        raise ExportError(
            "a submodule that the module has under several names is used on both "
            f"sides of a split ({error}): give each stage a submodule of its own, "
            "or split elsewhere") from error


def _check_replicated(pipe: Pipe, tied: Sequence[Sequence[str]]) -> None:
    """The split gives each stage that uses a parameter a copy of its own."""
    for users in pipe.replicated_params:
        shared = {f"{stage.removeprefix(_STAGE_PREFIX)}:{name}"
                  for stage, name in users.items()}
        refuse_shared(shared, tied)


def _is_marker(node: fx.Node) -> bool:
    return (node.op, node.target) == ("call_function",
                                      pipelining_ir.aten_pipe_split_alias)


def _part_of(nodes: Sequence[fx.Node]) -> dict[fx.Node, int]:
    """The stage of every node: one more after each split marker."""
    parts, part = {}, 0
    for node in nodes:
        part += _is_marker(node)
        parts[node] = part
    return parts


def _localise_sizes(traced: fx.GraphModule) -> fx.GraphModule:
    """Computes every size in the stage that uses it.

    Only tensors cross stages. A size computed in an earlier stage is read from a
    tensor again, or computed again from such sizes.
    """
    graph = traced.graph
    parts = _part_of(list(graph.nodes))
    for part in range(1, max(parts.values()) + 1):
        users = [n for n in graph.nodes if parts.get(n) == part
                 and n.op == "call_function" and not _is_marker(n)]
        _Localiser(graph, parts, part, users).run()
    for node in graph.nodes:
        # Stages as flat graphs: regrouping operations into submodules goes wrong
        # for submodules with several outputs, such as nn.MultiheadAttention.
        node.meta["nn_module_stack"] = {"": ("", "torch.nn.Module")}
    graph.eliminate_dead_code()
    graph.lint()
    traced.recompile()
    return traced


class _Localiser:
    """Brings the sizes that one stage uses into that stage."""

    def __init__(self, graph: fx.Graph, parts: dict[fx.Node, int], part: int,
                 users: Sequence[fx.Node]):
        self._graph = graph
        self._parts = parts
        self._part = part
        self._users = users
        self._copies: dict[fx.Node, fx.Node] = {}
        # Where to look for a size: tensors that the stage gets anyway, then inputs
        # of the model, which any stage may have as keywords.
        inputs = [n for n in graph.nodes if n.op == "placeholder"]
        self._tensors = [*self._tensors_that_cross(), *inputs]

    def _foreign(self, node: fx.Node) -> bool:
        return (node.op == "placeholder" or
                node.op == "call_function" and self._parts[node] != self._part)

    def _tensors_that_cross(self) -> list[fx.Node]:
        found: dict[fx.Node, None] = {}
        for user in self._users:
            for node in user.all_input_nodes:
                if self._foreign(node) and isinstance(
                        node.meta.get("val"), torch.Tensor):
                    found[node] = None
        return list(found)

    def run(self) -> None:
        if not self._users:
            return
        for user in self._users:
            for node in user.all_input_nodes:
                if self._foreign(node) and isinstance(
                        node.meta.get("val"), torch.SymInt):
                    with self._graph.inserting_before(self._users[0]):
                        user.replace_input_with(node, self._copy(node))

    def _copy(self, node: fx.Node) -> fx.Node:
        if node not in self._copies:
            copy = self._read_from_tensor(node) or self._compute_again(node)
            copy.meta = dict(node.meta)
            self._parts[copy] = self._part
            self._copies[node] = copy
        return self._copies[node]

    def _read_from_tensor(self, node: fx.Node) -> fx.Node | None:
        wanted = node.meta["val"].node.expr
        for tensor in self._tensors:
            for axis, size in enumerate(getattr(tensor.meta.get("val"), "shape", ())):
                if isinstance(size, torch.SymInt) and size.node.expr == wanted:
                    return self._graph.call_function(
                        torch.ops.aten.sym_size.int, (tensor, axis))
        return None

    def _compute_again(self, node: fx.Node) -> fx.Node:
        if node.target is torch.ops.aten.sym_size.int or node.op == "placeholder":
            raise ExportError(
                f"stage {self._part} needs a size that no tensor it gets has, "
                "nor any input of the model; split elsewhere")
        arguments = fx.map_arg(node.args, self._copy_if_foreign)
        return self._graph.call_function(node.target, arguments)

    def _copy_if_foreign(self, node: fx.Node) -> fx.Node:
        is_size = isinstance(node.meta.get("val"), torch.SymInt)
        return self._copy(node) if is_size and self._foreign(node) else node


def _read_graph(split: fx.GraphModule, inputs: Sequence[str]) -> _Cut:
    """Stages and their inputs from the graph that calls one after the other."""
    names = dict(zip((n for n in split.graph.nodes if n.op == "placeholder"),
                     inputs))
    calls = [n for n in split.graph.nodes if n.op == "call_module"]
    stages: list[nn.Module] = []
    positional: list[str] = []
    keyword_inputs: dict[int, list[str]] = {}
    for index, call in enumerate(calls):
        carried = [a for a in call.args if a not in names]
        own = [names[a] for a in call.args if a in names]
        _check_neighbours(index, carried, calls)
        if index == 0:
            positional = own
        elif own:
            keyword_inputs[index] = own
        stage = split.get_submodule(call.target)
        _order_inputs(stage, [names.get(a, a) for a in call.args])
        stages.append(stage)
    _check_output(split, calls)
    return _Cut(stages, positional, keyword_inputs)


def _source(value: fx.Node) -> fx.Node:
    return value.args[0] if value.target is operator.getitem else value


def _place(value: fx.Node) -> int:
    return value.args[1] if value.target is operator.getitem else 0


def _check_neighbours(index: int, carried: Sequence[fx.Node],
                      calls: Sequence[fx.Node]) -> None:
    for value in carried:
        source = calls.index(_source(value))
        if source != index - 1:
            raise ExportError(
                f"stage {index} uses a tensor of stage {source}, which is not its "
                f"neighbour: let stage {index - 1} pass it on, or split elsewhere")


def _check_output(split: fx.GraphModule, calls: Sequence[fx.Node]) -> None:
    (output,) = [n for n in split.graph.nodes if n.op == "output"]
    for value in output.all_input_nodes:
        if value.op == "placeholder":
            raise ExportError("the module returns one of its inputs as it is")
        source = calls.index(_source(value))
        if source != len(calls) - 1:
            raise ExportError(
                f"the module returns a tensor of stage {source}, which is not the "
                "last: let the later stages pass it on, or split elsewhere")


def _order_inputs(stage: fx.GraphModule, given: Sequence[fx.Node | str]) -> None:
    """Lets a stage take its neighbour's tensors in their order, then model inputs
    by name. `given` says what its parameters are now."""
    parameters = [n for n in stage.graph.nodes if n.op == "placeholder"]
    carried = sorted(
        ((_place(value), parameter) for parameter, value
         in zip(parameters, given) if isinstance(value, fx.Node)),
        key=lambda pair: pair[0])
    named = [(value, parameter) for parameter, value
             in zip(parameters, given) if isinstance(value, str)]
    ordered = [(f"carried_{i}", p) for i, (_, p) in enumerate(carried)] + named
    first = next(iter(stage.graph.nodes))
    for name, parameter in ordered:
        parameter.target = name
        if parameter is first:
            first = parameter.next
        first.prepend(parameter)
    stage.recompile()


def _name_outputs(stage: fx.GraphModule, names: Sequence[str] | None) -> None:
    """Lets the last stage return a dict if the module did."""
    (output,) = [n for n in stage.graph.nodes if n.op == "output"]
    (values,) = output.args
    if isinstance(values, (list, tuple)):
        output.args = (tuple(values),)
    if names is not None:
        values = values if isinstance(values, (list, tuple)) else (values,)
        output.args = (dict(zip(names, values)),)
    stage.recompile()
