"""What clients see later than the engine: HTTP, tokenizing, streaming.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfatlas.engines import Tokenizing, tokenizing
from perfatlas.serving.closed_form.latencies import ClientSide

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.step import Candidates

PROSE: Final = "natural"


def client_side(question: Candidates) -> ClientSide:
    """Return what clients see later than the engines of candidates, prompts of prose.

    Args:
        question: What runs where.
    """
    front, osl = question.profile.front, question.load.osl
    read = reading(question, PROSE)
    read_s = 0.0 if read is None else read.token_s
    each_C = np.ones(osl.size)
    # the first token goes alone, the others some at a time
    sendings = (1.0 + (osl - 1.0) / question.limits.stream_interval) / osl
    return ClientSide(
        request_s=front.request_s + read_s * question.load.isl,
        token_s=front.token_s * each_C,
        stream_s=front.token_s * sendings / processes(question) * question.plan.attention_dp,
        response_s=front.response_s * each_C,
    )


def client_note(question: Candidates) -> str:
    """Return how much of TTFT lies outside the engine's steps, as the end of a sentence.

    Args:
        question: What runs where; told is the first candidate.
    """
    late_ms = 1e3 * float(client_side(question).late_s[0])
    said = front_end_said(question, reading(question, PROSE), pooled=False)
    return f"TTFT includes {late_ms:.1f} ms of HTTP, tokenizing and streaming: {said}"


def reading(question: Candidates, text: str) -> Tokenizing | None:
    """Return what a prompt token takes, None where prompts come as tokens."""
    if not question.profile.front.tokenizes:
        return None
    return tokenizing(question.model.architecture.vocab_size, text)


def processes(question: Candidates) -> FloatArray:
    """Return the processes of a replica that tokenize and stream (C,)."""
    ranks_C: FloatArray = np.asarray(question.plan.attention_dp, np.float64)
    return ranks_C if question.profile.front.per_rank else np.ones_like(ranks_C)


def front_end_said(question: Candidates, read: Tokenizing | None, *, pooled: bool) -> str:
    """Return what a front end takes, a sentence.

    Args:
        question: What runs where.
        read: What a prompt token takes to tokenize, None where prompts come as tokens.
        pooled: A router of its own stands before two pools.
    """
    front = question.profile.front
    if front.request_s == front.token_s == 0.0 and read is None:
        return "front ends take no time"
    parts = [f"a request takes {1e3 * front.request_s:.1f} ms to the queue"]
    if read is not None:
        parts.append(f"a prompt token {1e6 * read.token_s:.2f} us to tokenize ({read.note})")
    several = int(question.limits.stream_interval[0])
    sent = "an output token" if several == 1 else f"{several} output tokens"
    parts.append(f"{sent} {1e6 * front.token_s:.3g} us to send")
    queue = "nobody waits for another there" if pooled else "one process does one after the other"
    sources = "; ".join((front.source, *(() if read is None else (read.source,))))
    return f"{', '.join(parts)}; {queue} (sources: {sources})"
