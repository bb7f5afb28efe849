"""Functions of a file of ONNX: its own are inlined, those of other operator sets state shapes."""

from __future__ import annotations

from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table
from perfatlas.networks.graphs.imports import KINDS_FILE
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

MAX_INLINED: Final = 100_000  # operators of a graph with its functions
MAX_PLACES: Final = 24  # inputs of a contributed operator
# In the text of a function: inputs with their scales and zero points, and these inputs alone.
_TRIPLES, _EACH = "TRIPLES", "EACH"
_PACKED: Final = ("GroupQueryAttention", "MultiHeadAttention")  # without keys: queries hold them


@cache
def _contributed() -> Mapping[str, str]:
    """Return what operators of other sets compute, by name, as text of ONNX.

    Source: data/graph_operators.toml, from onnxruntime's docs/ContribOperators.md.
    """
    rows = shipped_table(KINDS_FILE)["onnx_contributed"]
    return {name: row["function"] for row in rows for name in row["operators"]}


def operators_of(graph: Any) -> Iterator[Any]:  # noqa: ANN401
    """Yield the operators of a graph, and of graphs inside of them."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == attribute.GRAPH:
                yield from operators_of(attribute.g)


def with_functions(model: Any, path: Path) -> Any:  # noqa: ANN401 - `onnx.ModelProto`
    """Return a model with its own functions inlined, and those of contributed operators.

    Raises:
        InvalidSpecError: Its functions call themselves, or are too many operators.
    """
    import onnx.inliner

    if model.functions:
        _check_functions(model, path)
        model = onnx.inliner.inline_local_functions(model)
    versions = {entry.domain: entry.version for entry in model.opset_import}
    known: dict[tuple[str, str, str], Any] = {}
    for node in operators_of(model.graph):
        if node.op_type in _PACKED and node.domain and not [*node.input, "", ""][1]:
            node.op_type = f"Packed{node.op_type}"
        if node.op_type not in _contributed() or onnx.defs.has(node.op_type, node.domain):
            continue
        text = _contributed()[node.op_type]
        if _EACH in text:  # a function for each number of inputs
            node.overload = str(len(node.input))
            each = [f"x{place}" for place in range(len(node.input) // 3)]
            triples = (f"{name}, {name}_scale, {name}_zero" for name in each)
            text = text.replace(_TRIPLES, ", ".join(triples)).replace(_EACH, ", ".join(each))
        key = (node.domain, node.op_type, node.overload)
        if key not in known:
            head = (
                f'<domain: "{node.domain}", opset_import: ["" : {max(versions.get("", 18), 18)}]>'
            )
            known[key] = onnx.parser.parse_function(f"{head} {node.op_type} {text}")
            known[key].overload = node.overload
        missing = range(len(node.output), len(known[key].output))
        node.output.extend(f"{node.output[0]}/unused {place}" for place in missing)
    for domain, _, _ in known:
        if domain not in versions:
            model.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    for function in known.values():
        function.input.extend(f"unused{index}" for index in range(len(function.input), MAX_PLACES))
    model.functions.extend(known.values())
    return model


def _check_functions(model: Any, path: Path) -> None:  # noqa: ANN401
    """Refuse functions that call themselves, or that are too many operators once inlined."""
    inside = {
        (one.domain, one.name, one.overload): [
            (node.domain, node.op_type, node.overload) for node in operators_of(one)
        ]
        for one in model.functions
    }
    sizes: dict[tuple[str, str, str], int] = {}
    try:
        for key in TopologicalSorter(
            {k: inside.keys() & calls for k, calls in inside.items()}
        ).static_order():
            sizes[key] = sum(sizes.get(call, 1) for call in inside[key])
    except CycleError as problem:
        raise InvalidSpecError(f"{path}: function {problem.args[1][0][1]!r} calls itself") from None
    calls = [(node.domain, node.op_type, node.overload) for node in operators_of(model.graph)]
    total = sum(sizes.get(call, 1) for call in calls)
    if total > MAX_INLINED:
        raise InvalidSpecError(
            f"{path} has {total:,} operators once its functions are inlined, more than"
            f" {MAX_INLINED:,}"
        )
