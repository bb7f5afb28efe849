"""Control flow of a graph of ONNX whose path is known, as operators of the graph around it.

An `If` runs the branch of its condition. A `Loop` or `Scan` runs its body a known number of times:
the operators of the body stand in the graph once, with how often they run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from perfatlas.quantities import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Proto: TypeAlias = Any  # a message of ONNX
CONTROL: Final = ("If", "Loop", "Scan", "SequenceMap")
MAX_TIMES: Final = 10**12  # runs of a body
# Types of the first inputs of the body of a Loop: number of the iteration, condition.
_OF_LOOP: Final = (7, 9)


@dataclass
class Control:
    """Control flow of a graph while it is replaced.

    Attributes:
        stated: Iterations by name of the Loop.
        times: How often the operator runs that writes a tensor, where not once.
        initial: Tensors that loops start with.
        carried: Tensors of one iteration, and of the next, of each loop.
    """

    stated: Mapping[str, int] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    initial: set[str] = field(default_factory=set)
    carried: list[tuple[str, str, str]] = field(default_factory=list)

    def inline(self, graph: Proto, values: Mapping[str, Any], types: Mapping[str, Any]) -> bool:
        """Replace control flow whose path is known; drop what nothing reads then.

        Args:
            values: Constants by name.
            types: Types of tensors with known shapes, by name.
        """
        import onnx

        nodes, changed = [], False
        for node in graph.node:
            inside = self._inside(node, graph, values, types)
            changed |= inside is not None
            nodes += [node] if inside is None else inside
        if changed:
            read = {output.name for output in graph.output} | self.initial
            read |= {following for _, _, following in self.carried}
            live = []
            for node in reversed(nodes):  # operators that only other branches read do not run
                if read.intersection(node.output):
                    live.append(onnx.NodeProto.FromString(node.SerializeToString()))
                    read.update(reads_of(node))
            del graph.node[:]
            graph.node.extend(reversed(live))
        return changed

    def _inside(
        self, node: Proto, graph: Proto, values: Mapping[str, Any], types: Mapping[str, Any]
    ) -> list[Any] | None:
        """Return the operators that stand for control flow, None for another operator."""
        if node.op_type in ("Loop", "Scan"):
            return self._loop(node, graph, values, types)
        condition = values.get(node.input[0]) if node.op_type == "If" else None
        if condition is None or condition.size != 1:
            return None
        name = "then_branch" if condition.item() else "else_branch"
        body = next(attribute.g for attribute in node.attribute if attribute.name == name)
        names = self._rename_inside(node, graph, body, {}, 1)
        return [*body.node, *_copies(names, body.output, node.output)]

    def _loop(
        self, node: Proto, graph: Proto, values: Mapping[str, Any], types: Mapping[str, Any]
    ) -> list[Any] | None:
        """Return one iteration of a loop, and what stacks its outputs; None if it is not known."""
        from onnx.helper import make_node, make_tensor

        attributes = {attribute.name: attribute for attribute in node.attribute}
        body, own, slices = attributes["body"].g, 0, 0
        if node.op_type == "Loop":
            own, count = len(_OF_LOOP), self._iterations(node, body, values)
        else:
            slices = attributes["num_scan_inputs"].i
            moved = (any(a.ints) for name, a in attributes.items() if name.endswith("_axes"))
            first = None if any(moved) else types.get(node.input[-1])
            count = 0 if first is None else first.tensor_type.shape.dim[0].dim_value
        starts, outputs = node.input[own:], body.output[own // 2 :]
        if count < 1 or any(name not in types for name in starts):
            return None
        carried = len(starts) - slices
        bound, following = {}, {}
        for place, value in enumerate(body.input, -own):
            if 0 <= place < carried and _copied(body, outputs[place].name) == value.name:
                bound[value.name] = starts[place]  # equal in all iterations
                continue
            new = graph.input.add(name=f"{_first_output(node)}/{value.name}")
            bound[value.name] = new.name
            if place < 0:
                new.type.tensor_type.elem_type = _OF_LOOP[place + own]
                new.type.tensor_type.shape.SetInParent()
                continue
            new.type.CopyFrom(types[starts[place]])
            self.initial.add(starts[place])
            if place < carried:
                following[new.name] = outputs[place].name
            else:
                del new.type.tensor_type.shape.dim[0]
        names = self._rename_inside(node, graph, body, bound, count)
        for name, last in following.items():
            self.carried.append((name_of(node), name, names.get(last, last)))
        nodes = [*body.node, *_copies(names, outputs[:carried], node.output)]
        for inner, outer in zip(outputs[carried:], node.output[carried:], strict=False):
            size, whole, number = (f"{outer}/{part}" for part in ("size", "sizes", "iterations"))
            last = names.get(inner.name, inner.name)
            nodes += [
                make_node("Constant", [], [number], value=make_tensor(number, 7, [1], [count])),
                make_node("Shape", [last], [size]),
                make_node("Concat", [number, size], [whole], axis=0),
                make_node("Expand", [last, whole], [outer]),
            ]
        return nodes

    def _rename_inside(
        self, node: Proto, graph: Proto, body: Proto, bound: Mapping[str, str], count: int
    ) -> Mapping[str, str]:
        """Give what is inside of an operator names of its own, which are returned by the old ones.

        Args:
            bound: Tensors outside that the inputs of the body are.
            count: How often it runs.
        """
        prefix = _first_output(node)
        names = [tensor.name for tensor in body.initializer]
        names += [name for inner in body.node for name in inner.output if name]
        renamed = {name: f"{prefix}/{name}" for name in names} | dict(bound)
        for tensor in body.initializer:
            tensor.name = renamed[tensor.name]
        graph.initializer.extend(body.initializer)
        _rename(body.node, renamed)
        times = count * self.times.get(prefix, 1)
        if times > MAX_TIMES:
            raise UnsupportedError(f"{name_of(node)!r} runs its body more than {MAX_TIMES:,} times")
        if times > 1:
            self.times |= {name: times for inner in body.node for name in inner.output}
        return renamed

    def _iterations(self, node: Proto, body: Proto, values: Mapping[str, Any]) -> int:
        """Return how often a Loop runs, 0 where that is not known."""
        if stated := self.stated.get(name_of(node)):
            return stated
        from onnx.numpy_helper import to_array

        inside = {tensor.name: to_array(tensor) for tensor in body.initializer}
        for one in body.node:
            if one.op_type == "Constant" and one.attribute[0].name == "value":
                inside[one.output[0]] = to_array(one.attribute[0].t)
        number, first = (values.get(name) for name in node.input[: len(_OF_LOOP)])
        last = _copied(body, body.output[0].name)
        true = [
            condition is not None and condition.all()
            for condition in (first, {**values, **inside}.get(last))
        ]
        always = (true[0] or not node.input[1]) and (true[1] or last == body.input[1].name)
        return int(number.item()) if always and number is not None else 0


def name_of(node: Proto) -> str:
    """Return the name of an operator, or of what it writes."""
    return str(node.name or node.output[0])


def _first_output(node: Proto) -> str:
    return str(next(name for name in node.output if name))


def _copies(names: Mapping[str, str], inside: Sequence[Any], outside: Sequence[str]) -> list[Any]:
    """Return copies of tensors inside of an operator as its outputs."""
    from onnx.helper import make_node

    return [
        make_node("Identity", [names.get(inner.name, inner.name)], [outer])
        for inner, outer in zip(inside, outside, strict=False)
    ]


def _copied(body: Proto, name: str) -> str:
    """Return the tensor that one is a copy of."""
    copies = {node.output[0]: node.input[0] for node in body.node if node.op_type == "Identity"}
    while name in copies:
        name = copies.pop(name)
    return name


def _rename(nodes: Proto, renamed: Mapping[str, str]) -> None:
    """Rename tensors of operators and of the graphs inside of them."""
    for node in nodes:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
        for attribute in node.attribute:
            _rename(attribute.g.node, renamed)
            for out in attribute.g.output:
                out.name = renamed.get(out.name, out.name)


def reads_of(node: Proto) -> list[str]:
    """Return the tensors that an operator reads, those of the graphs inside of it among them."""
    read = [name for name in node.input if name]
    for attribute in node.attribute:
        if attribute.type == attribute.GRAPH:
            inner_names = {value.name for value in (*attribute.g.initializer, *attribute.g.input)}
            inner_names.update(name for inner in attribute.g.node for name in inner.output)
            inside = [name for inner in attribute.g.node for name in reads_of(inner)]
            read += [
                name
                for name in (*inside, *(o.name for o in attribute.g.output))
                if name not in inner_names
            ]
    return list(dict.fromkeys(read))
