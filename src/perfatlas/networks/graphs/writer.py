"""Graphs of operators as TOML, one operator on a line; equal operators are counted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perfatlas.files import format_toml
from perfatlas.networks.graphs.nodes import SIZES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfatlas.networks.graphs.nodes import Node


def graph_text(head: Mapping[str, Any], nodes: Iterable[Node]) -> str:
    """Return the TOML of a network, which `read_graph` reads again.

    Args:
        head: `name`, `item`, `source`, `parameters`, `sizes` and others, by key.
        nodes: Its operators in execution order; equal ones become one line.

    Example:
        >>> from perfatlas.networks.graphs import Node, graph_text
        >>> from perfatlas.quantities import Expression
        >>> sizes = {name: Expression(text) for name, text in (("m", "batch"), ("n", "4"))}
        >>> node = Node(kind="linear", sizes=sizes | {"k": Expression("8")}, count=Expression("1"))
        >>> print(graph_text({"name": "a"}, [node, node]).splitlines()[-2])
          { kind = "linear", count = 2, m = "batch", n = 4, k = 8 },
    """
    lines: dict[tuple[str, str, str], int] = {}
    for node in nodes:
        cells = {name: node.sizes[name].text for name in SIZES[node.kind] if name in node.sizes}
        for name, default in SIZES[node.kind].items():
            if name in cells and cells[name] in (default, cells.get(default)):
                del cells[name]  # it follows
        cells |= {"after": node.after} if node.after else {}
        parts = [f"{name} = {_cell(value)}" for name, value in cells.items()]
        parts += ["causal = true"] if node.causal else []
        line = (f'kind = "{node.kind}"', node.count.text, ", ".join(parts))
        lines[line] = lines.get(line, 0) + 1
    rows = [
        f"  {{ {kind}{_count(number, text)}, {sizes} }},\n"
        for (kind, text, sizes), number in lines.items()
    ]
    first = {name: value for name, value in head.items() if not isinstance(value, dict)}
    tables = {name: value for name, value in head.items() if isinstance(value, dict) and value}
    # tables follow: a key after a table would belong to it
    text = f"{format_toml(first)}\noperators = [\n{''.join(rows)}]\n"
    return text if not tables else f"{text}\n{format_toml(tables)}"


def _count(number: int, text: str) -> str:
    """Return how often equal operators run, each `text` times; once needs no key."""
    if text == "1":
        return f", count = {number}" if number > 1 else ""
    return f", count = {_cell(text if number == 1 else f'{number} * ({text})')}"


def _cell(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return json.dumps(value)
    return f"{number:.15g}"
