"""Spans of generative AI in OpenTelemetry's OTLP JSON (`otel`): model calls, agents and tools.

Source: open-telemetry/semantic-conventions-genai, docs/gen-ai; the OTLP file exporter. A line, or
the whole file, has resourceSpans, scopeSpans and spans with traceId, spanId, parentSpanId,
startTimeUnixNano, endTimeUnixNano and attributes. A span with gen_ai.usage.input_tokens (the whole
prompt) and gen_ai.usage.output_tokens is a request, unless it adds up those within it, as
invoke_agent does. The requests of a gen_ai.conversation.id, else of a trace, make a session; an
invoke_agent span within another makes a sub-agent, also of an agent that itself sends no requests,
such as a workflow: then it is a session of its own. Tools (execute_tool) run within the
pauses between requests.
Limits: Spans do not tell what prompts share. A prompt is taken to begin with the previous prompt
and answer of its agent; with the previous prompt alone if it is shorter than both, such as without
reasoning; and, shorter than that, with nothing, as after a summary. A larger
gen_ai.usage.cache_read.input_tokens raises that, up to the previous prompt and answer: a smaller
one tells of a miss, not of other text. Agents and conversations share nothing, not even a system
prompt; cached tokens beyond the conversation are warned of. Tested on hand-written spans.

Shape legend: N requests, S strings of hashes, H hashes of full blocks.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.files import GrowingColumn
from perfatlas.quantities import counted, repr_for_error
from perfatlas.serving.requests import TICKS_PER_SECOND
from perfatlas.serving.traces import reading
from perfatlas.serving.traces.blocks import Block, json_object, jsonl_blocks, line_blocks, refuse
from perfatlas.serving.traces.fields import TraceField, label_of
from perfatlas.serving.traces.waits import close_agents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Int = NDArray[np.int64]
    Row = Mapping[str, Any]

HASH_BLOCK: Final = 64  # tokens
_AT_A_TIME: Final = 1 << 16  # requests of a block
_TICKS_PER_NS: Final = TICKS_PER_SECOND // 10**9
_USAGE: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens")
_CACHED: Final = "gen_ai.usage.cache_read.input_tokens"
_WARNINGS: Final = {
    "left out": ("model call", "without token usage: excluded"),
    "repeated": ("span", "with the traceId and spanId of an earlier one: excluded"),
    "silent": ("request", "without output tokens: 1 is used"),
}
_ANSWERS: Final = ("chat", "text_completion", "generate_content")
_FIELDS: Final = (
    TraceField(name="startTimeUnixNano", kind="whole"),
    TraceField(name="endTimeUnixNano", kind="whole"),
    TraceField(name=_USAGE[0], kind="tokens", low=1),
    TraceField(name=_USAGE[1], kind="tokens", low=0),
    TraceField(name=_CACHED, kind="whole"),
    TraceField(name="agent", kind="label"),
    TraceField(name="parent", kind="label"),
)


class _Span(NamedTuple):
    """What the spans within a span inherit, by their hashed names."""

    parent: int  # Enclosing span
    conversation: int  # 0 for that of the enclosing span
    is_agent: bool


class _Place(NamedTuple):
    """The agent that sent a request."""

    agent: int
    spawner: int | None  # Its parent agent
    conversation: int
    nested: bool  # Whether it is in an invoke_agent span


def read_otel(path: str | Path, window: reading.TraceWindow = reading.WHOLE_TRACE) -> reading.Trace:
    """Return the model calls of a file of spans, with the earliest at time 0."""
    clock = reading.TraceClock(ticks=_TICKS_PER_NS, relative=False)
    trace = reading.GrowingTrace(path=path, clock=clock, window=window)
    spans: dict[int, _Span] = {}
    calls: list[tuple[int, int, int, Row]] = []  # Line, span, trace, and fields
    seen: Counter[str] = Counter()
    word = _read_spans(path, spans, calls, seen)
    places: dict[int, _Place] = {}
    for first in range(0, len(calls), _AT_A_TIME):
        some = [
            (line, {**row, **_found(path, f"{word} {line}", spans, places, span, of_trace)})
            for line, span, of_trace, row in calls[first : first + _AT_A_TIME]
        ]
        block = Block(word, first, lambda: None, some.__iter__)
        for rows in trace.rows([block], _FIELDS):
            cells = rows.cells
            start_B, end_B = cells["startTimeUnixNano"], cells["endTimeUnixNano"]
            isl_B, cached_B = cells[_USAGE[0]], cells[_CACHED]
            if (end_B < start_B).any():
                position = f"{word} {rows.number_B[np.argmax(end_B < start_B)]}"
                raise refuse(path, position, "a span ends before it starts; correct its times")
            if (wrong_B := (cached_B < 0) | (cached_B > isl_B)).any():
                row = int(np.argmax(wrong_B))
                problem = f"{_CACHED} = {cached_B[row]}; it must be from 0 to {_USAGE[0]} ="
                problem += f" {isl_B[row]}, which counts cached tokens too"
                raise refuse(path, f"{word} {rows.number_B[row]}", problem)
            seen["silent"] += int(np.count_nonzero(cells[_USAGE[1]] == 0))
            trace.add(
                rows,
                "startTimeUnixNano",
                isl=isl_B,
                osl=np.maximum(cells[_USAGE[1]], 1),
                cached=cached_B,
                session=cells["agent"],
                agent=cells["agent"],
                parent=cells["parent"],
                taken=(end_B - start_B) * _TICKS_PER_NS,
            )
    trace.warnings += [
        f"{counted(seen[what], thing)} {rest}"
        for what, (thing, rest) in _WARNINGS.items()
        if seen[what]
    ]
    columns = trace.columns()
    return _with_prefixes(close_agents(trace, columns, silent_parents=True), columns)


def _read_spans(
    path: str | Path,
    spans: dict[int, _Span],
    calls: list[tuple[int, int, int, Row]],
    seen: Counter[str],
) -> str:
    """Add the spans of a file and the model calls among them; return the word for a position."""
    _, begin = next(line_blocks(path))
    by_line = False
    with contextlib.suppress(ValueError, RecursionError):
        by_line = isinstance(json.loads(begin.split(b"\n", 1)[0]), dict)
    word = "line" if by_line else "span"
    documents: Iterable[tuple[int, Row]]
    if by_line:
        documents = (one for block in jsonl_blocks(path, {}) for one in block.rows())
    else:
        text = b"".join(data for _, data in line_blocks(path))
        documents = [(0, json_object(path, "", text))]
    for line, document in documents:
        where = f"line {line}" if by_line else ""
        for number, span in enumerate(_spans_of(path, where, document), 1):
            at = line if by_line else number
            names = [span.get(name) or "" for name in ("traceId", "spanId", "parentSpanId")]
            if not all(isinstance(name, str) for name in names) or not names[0] or not names[1]:
                problem = (
                    f"traceId = {repr_for_error(names[0])}, spanId = {repr_for_error(names[1])}"
                )
                raise refuse(path, f"{word} {at}", f"{problem}; a span needs both, as texts")
            of_trace = _key(names[0])
            key, parent = (_key(f"{names[0]} {name}") for name in names[1:])
            listed = span.get("attributes", [])
            if not isinstance(listed, list):
                problem = f"attributes = {repr_for_error(listed)}; expected a list of key and value"
                raise refuse(path, f"{word} {at}", problem)
            given = _attributes(listed)
            operation = given.get("gen_ai.operation.name")
            conversation = given.get("gen_ai.conversation.id")
            chat = _key(f"conversation {conversation}") if conversation else 0
            if key in spans:
                seen["repeated"] += 1
                continue
            spans[key] = _Span(parent, chat, operation == "invoke_agent")
            if operation not in (None, *_ANSWERS):
                continue
            if all(name in given for name in _USAGE):
                times = {name: span.get(name) for name in ("startTimeUnixNano", "endTimeUnixNano")}
                used = {name: given[name] for name in _USAGE} | {_CACHED: given.get(_CACHED, 0)}
                calls.append((at, key, of_trace, times | used))
            else:
                seen["left out"] += operation is not None
    return word


def _key(name: str) -> int:
    """Return a hash of a name that is at least 0."""
    return label_of(name) & np.iinfo(np.int64).max


def _spans_of(path: str | Path, where: str, document: Row) -> Iterator[Row]:
    """Yield the spans of an export."""
    holders: list[Row] = [document]
    for name in ("resourceSpans", "scopeSpans", "spans"):
        held: list[Row] = []
        for holder in holders:
            items = holder.get(name, [] if holder is not document else None)
            if not isinstance(items, list) or not all(isinstance(one, Mapping) for one in items):
                problem = (
                    f"{name} = {repr_for_error(items)}; expected OTLP JSON of traces, with lists"
                )
                raise refuse(path, where, f"{problem} resourceSpans, scopeSpans and spans")
            held += items
        holders = held
    yield from holders


def _attributes(listed: list[Any]) -> dict[str, Any]:
    """Return the attributes of a span that are texts or numbers, by name."""
    found: dict[str, Any] = {}
    for one in listed:
        value = one.get("value") if isinstance(one, Mapping) else None
        if isinstance(value, Mapping) and len(value) == 1:
            found[str(one.get("key"))] = next(iter(value.values()))
    return found


def _found(
    path: str | Path,
    position: str,
    spans: dict[int, _Span],
    places: dict[int, _Place],
    span: int,
    of_trace: int,
) -> Row:
    """Return the agent of a model call and its parent agent."""
    above = list[int]()
    visited = set[int]()
    while span in spans and span not in places:
        if span in visited:
            raise refuse(path, position, "its span is within itself; correct a parentSpanId")
        above.append(span)
        visited.add(span)
        span = spans[span].parent
    place = places.get(span, _Place(of_trace, None, of_trace, nested=False))
    for key in reversed(above):
        one = spans[key]
        conversation = one.conversation or place.conversation
        if not place.nested:  # the main agent of the conversation
            place = _Place(conversation, None, conversation, one.is_agent)
        elif one.is_agent:
            place = _Place(key, place.agent, conversation, nested=True)
        places[key] = place
    return {"agent": place.agent, "parent": place.spawner}


def _with_prefixes(trace: reading.Trace, columns: dict[str, Int]) -> reading.Trace:
    """Return a trace whose prompts begin with the previous prompt and answer of their agent."""
    requests = trace.requests
    isl_N, agent_N, cached_N = requests.isl_N, columns["agent"], columns["cached"]
    full_N = isl_N // HASH_BLOCK
    order_N = np.argsort(agent_N, kind="stable")
    before, after = order_N[:-1], order_N[1:]
    follows = agent_N[after] == agent_N[before]
    prompt_N, known_N = np.zeros_like(isl_N), np.zeros_like(isl_N)
    prompt_N[after] = np.where(follows, isl_N[before], 0)
    known_N[after] = np.where(follows, isl_N[before] + requests.osl_N[before], 0)
    kept_N = np.where(isl_N >= known_N, known_N, np.where(isl_N >= prompt_N, prompt_N, 0))
    shared_N = np.maximum(kept_N, np.minimum(cached_N, known_N)) // HASH_BLOCK
    if beyond := int(np.count_nonzero(cached_N > known_N)):
        text = f"{counted(beyond, 'request')} with more cached tokens than the conversation before:"
        text += " prompts share no text of other conversations or agents, such as a system prompt"
        trace = trace._replace(warnings=(*trace.warnings, text))
    string_N = np.empty_like(full_N)
    hashes, first_S = GrowingColumn(), list[int]()
    names = stored = length = 0
    prefix = np.zeros(0, np.int64)
    for place, row in enumerate(order_N.tolist()):
        shared = int(shared_N[row])
        if not known_N[row] or shared < min(length, int(full_N[row])):
            if place:
                string = np.append(prefix, np.arange(names, names + length - prefix.size))
                hashes.extend(string)
                names, stored = names + length - prefix.size, stored + length
                prefix = string[:shared]
            first_S.append(stored)
            length = prefix.size
        length = max(length, int(full_N[row]))
        string_N[row] = len(first_S) - 1
    hashes.extend(np.append(prefix, np.arange(names, names + length - prefix.size)))
    prefixes = {
        "hash_first_N": np.array(first_S)[string_N],
        "hash_H": hashes.whole(),
        "tail_N": names + length + np.arange(full_N.size),
    }
    return trace._replace(requests=requests._replace(**prefixes, hash_block=HASH_BLOCK))
