"""Delays between engine and client: HTTP, tokenization, streaming.

Shape legend: C candidates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.engines import Tokenizing, tokenizing
from perfatlas.inference.latencies import ClientSide

if TYPE_CHECKING:
    from perfatlas.step import Candidates

PROSE: Final = "natural"


class FrontScale(NamedTuple):
    """How much slower a front end is than predicted."""

    sending: float = 1.0  # Factor on the time to send a token, above 0
    request: float = 1.0  # Factor on the time of a request until it is queued, above 0


def client_side(question: Candidates) -> ClientSide:
    """Return the delays between engines and clients, for prompts of prose."""
    front, osl = question.profile.front, question.load.osl
    read = reading(question, PROSE)
    read_s = 0.0 if read is None else read.token_s
    each_C = np.ones(osl.size)
    # the first token is sent alone, the others in groups of stream_interval
    sendings = (1.0 + (osl - 1.0) / question.limits.stream_interval) / osl
    stream_s = (
        front.token_s * sendings / question.limits.server_processes * question.plan.attention_dp
    )
    return ClientSide(
        request_s=front.request_s + read_s * question.load.isl,
        token_s=front.token_s * each_C,
        stream_s=stream_s,
        gap_s=np.zeros_like(stream_s) if front.assumed else stream_s,
        response_s=front.response_s * each_C,
    )


def front_ends(question: Candidates) -> tuple[FrontScale, FrontScale]:
    """Return the factors on the times of a front end at both ends of the interval of a service.

    The fastest and the slowest known time; 1 and 1 where only one is known.
    """
    front = question.profile.front
    bounds = (
        (front.token_s, front.token_fastest_s, front.token_slowest_s),
        (front.request_s, front.request_fastest_s, front.request_slowest_s),
    )
    fast = (fastest / value if fastest and value else 1.0 for value, fastest, _ in bounds)
    slow = (slowest / value if slowest and value else 1.0 for value, _, slowest in bounds)
    return FrontScale(*fast), FrontScale(*slow)


def client_ends(question: Candidates) -> tuple[ClientSide, ClientSide]:
    """Return the delays at both ends of the interval of a service.

    A front end with one known time limits no rate at the fast end.
    """
    client, (fast, slow) = client_side(question), front_ends(question)
    none = np.zeros_like(client.stream_s)
    limit = none if fast.sending == 1.0 else client.gap_s * fast.sending
    sooner_s, later_s = (
        client.request_s + question.profile.front.request_s * (end.request - 1.0)
        for end in (fast, slow)
    )
    low = client._replace(request_s=sooner_s, stream_s=none, gap_s=limit)
    return low, client._replace(request_s=later_s, gap_s=client.gap_s * slow.sending)


def client_note(question: Candidates) -> str:
    """Return a remark on the part of TTFT outside the engine's steps.

    Args:
        question: The candidates; the remark describes the first one.
    """
    late_ms = 1e3 * float(client_side(question).late_s[0])
    notes = front_end_note(question, reading(question, PROSE), pooled=False)
    return f"TTFT includes {late_ms:.1f} ms of HTTP, tokenization and streaming: {notes}"


def reading(question: Candidates, text: str) -> Tokenizing | None:
    """Return the time to tokenize a prompt token, None for pre-tokenized prompts."""
    front = question.profile.front
    if not front.tokenizes:
        return None
    text_cost = tokenizing(question.model.network.vocab_size, text)
    return replace(text_cost, token_s=text_cost.token_s * front.tokenizing_ratio)


def front_end_note(question: Candidates, read: Tokenizing | None, *, pooled: bool) -> str:
    """Return a remark on front-end times.

    Args:
        read: Tokenization time, None for pre-tokenized prompts.
        pooled: Whether a router serves two pools.
    """
    front = question.profile.front
    if front.request_s == front.token_s == 0.0 and read is None:
        return "front-end time is 0"
    parts = [f"front end: {1e3 * front.request_s:.1f} ms per request until it is queued"]
    if read is not None:
        parts.append(f"{1e6 * read.token_s:.2f} µs per prompt token to tokenize ({read.note})")
    several = int(question.limits.stream_interval[0])
    sent = "output token" if several == 1 else f"{several} output tokens"
    parts.append(f"{1e6 * front.token_s:.3g} µs per {sent} to send")
    count = int(question.limits.server_processes[0])
    many = "one process handles" if count == 1 else f"{count} processes share"
    queue = "without queueing there" if pooled else f"{many} them in order"
    if front.assumed:
        queue += ", at an unknown rate, which limits nothing here"
    sources = "; ".join((front.source, *(() if read is None else (read.source,))))
    return f"{', '.join(parts)}; {queue} (sources: {sources})"
