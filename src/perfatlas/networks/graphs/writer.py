"""Graphs of operators as TOML, one operator on a line; equal operators are counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import format_toml
from perfatlas.networks.graphs.nodes import SIZES
from perfatlas.quantities import Expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfatlas.networks.graphs.nodes import Node

_DIVIDES: Final = re.compile(r"[/%]")
_TWICE: Final = re.compile(r"\(\(([^()]*)\)\)")  # brackets inside brackets


def graph_text(head: Mapping[str, Any], nodes: Iterable[Node], decoder: Iterable[Node] = ()) -> str:
    """Return the TOML of a network, which `read_graph` reads again.

    Args:
        head: `name`, `item`, `source`, `parameters`, `sizes` and others, by key.
        nodes: Its operators in execution order; equal ones become one line.
        decoder: Those of its decoder over one token.

    Example:
        >>> from perfatlas.networks.graphs import Node, graph_text
        >>> from perfatlas.quantities import Expression
        >>> sizes = {name: Expression(text) for name, text in (("m", "batch"), ("n", "4"))}
        >>> node = Node(kind="linear", sizes=sizes | {"k": Expression("8")}, count=Expression("1"))
        >>> print(graph_text({"name": "a"}, [node, node]).splitlines()[-2])
          { kind = "linear", count = 2, m = "batch", n = 4, k = 8 },
    """
    first, second = tuple(nodes), tuple(decoder)
    lengths, both = _with_lengths((*first, *second))
    lists = {"operators": both[: len(first)], "decoder": both[len(first) :]}
    plain = {name: value for name, value in head.items() if not isinstance(value, dict)}
    tables = {name: value for name, value in head.items() if isinstance(value, dict) and value}
    lengths = {**head.get("lengths", {}), **lengths}
    tables |= {"lengths": lengths} if lengths else {}
    rows = [f"{name} = [\n{_rows(some)}]\n" for name, some in lists.items() if some]
    # tables follow: a key after a table would belong to it
    return "\n".join([format_toml(plain), *rows, *([format_toml(tables)] if tables else [])])


def _rows(nodes: Iterable[Node]) -> str:
    """Return the lines of operators."""
    lines: dict[tuple[str, str, str], int] = {}
    for node in nodes:
        cells = {name: node.sizes[name].text for name in SIZES[node.kind] if name in node.sizes}
        for name, default in SIZES[node.kind].items():
            if name in cells and cells[name] in (default, cells.get(default)):
                del cells[name]  # it follows
        flags = {
            "after": node.after,
            "causal": node.causal,
            "by_output": node.by_output,
            "format": node.format,
        }
        flags = {name: value for name, value in flags.items() if value}
        parts = [f"{name} = {_cell(value)}" for name, value in {**cells, **flags}.items()]
        line = (f'kind = "{node.kind}"', node.count.text, ", ".join(parts))
        lines[line] = lines.get(line, 0) + 1
    return "".join(
        f"  {{ {kind}{_count(number, text)}, {sizes} }},\n"
        for (kind, text, sizes), number in lines.items()
    )


def _with_lengths(nodes: tuple[Node, ...]) -> tuple[dict[str, str], tuple[Node, ...]]:
    """Return the lengths that sizes share as parts in brackets, and nodes that name them."""
    plain = [
        {name: _TWICE.sub(r"(\1)", s.text) for name, s in node.sizes.items()} for node in nodes
    ]
    texts = [text for sizes in plain for text in sizes.values()]
    parts = Counter(part for text in texts for part in _brackets(text))
    shared = [part for part, times in parts.items() if times > 1]
    prefix = "size" if not any("size_" in text for text in texts) else "length_of"
    names = {part: f"{prefix}_{number}" for number, part in enumerate(shared, 1)}
    changed = tuple(
        replace(
            node,
            sizes={name: Expression(_named(text, names)) for name, text in texts_of_node.items()},
        )
        for node, texts_of_node in zip(nodes, plain, strict=True)
    )
    return {name: part for part, name in names.items()}, changed


def _named(text: str, names: Mapping[str, str]) -> str:
    """Return an expression with names for its parts in brackets."""
    for part in _brackets(text):
        if name := names.get(part):
            text = text.replace(f"({part})", name)
            if not _DIVIDES.search(text):
                text = re.sub(rf"\b{name} \* {name}\b", f"{name} ** 2", text)
    return text


def _brackets(text: str) -> list[str]:
    """Return the insides of the outermost brackets of an expression, calls left out."""
    parts, depth, start = [], 0, 0
    for index, sign in enumerate(text):
        if sign == "(":
            depth += 1
            start = index if depth == 1 else start
        elif sign == ")":
            depth -= 1
            if not depth and not text[:start][-1:].isalnum():
                parts.append(text[start + 1 : index])
    return parts


def _count(number: int, text: str) -> str:
    """Return how often equal operators run, each `text` times; once needs no key."""
    if text.isdigit():
        number, text = number * int(text), "1"
    if text == "1":
        return f", count = {number}" if number > 1 else ""
    times = text if text.isidentifier() else f"({text})"
    return f", count = {_cell(text if number == 1 else f'{number} * {times}')}"


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "true"
    try:
        number = float(str(value))
    except ValueError:
        return json.dumps(value)
    return f"{number:.15g}"
