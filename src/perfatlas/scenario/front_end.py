"""What lies between a client and the engine, the same for closed forms and simulations.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfatlas.engines import Tokenizing, tokenizing
from perfatlas.scenario.serving_formula import ClientSide
from perfatlas.serving.outcome import Seen
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from perfatlas.operators import FloatArray
    from perfatlas.scenario.resolved_scenario import Question
    from perfatlas.scenario.traffic import Traffic

PROSE: Final = "natural"


class FrontEnd(NamedTuple):
    """What the front end of a replica takes, for a simulation.

    Args:
        seen: What a client waits for besides.
        read_token: To tokenize a token of a prompt, requests one after the other [ps].
        stream_token: To send output tokens of a request, one sending after the other [ps].
        stream_interval: Tokens of a request that it sends at a time, after the first.
        readers: Threads of a replica that tokenize, 0 for as many as there are requests.
        said: What is assumed, in a sentence.
    """

    seen: Seen
    read_token: int
    stream_token: int
    stream_interval: int
    readers: int
    said: str


AT_ENGINE: Final = FrontEnd(
    seen=Seen(),
    read_token=0,
    stream_token=0,
    stream_interval=1,
    readers=1,
    said="latencies inside the engine: HTTP, tokenizing and detokenizing take no time",
)


def front_end(question: Question, traffic: Traffic, *, pooled: bool) -> FrontEnd:
    """Return the front end of a replica.

    Args:
        question: What runs where.
        traffic: What comes, and where latencies are measured.
        pooled: Before prefill workers and decode workers: a router of its own tokenizes and
            streams, with as many threads as it takes, so that nobody waits for another.
    """
    if traffic.measured_at == "engine":
        return AT_ENGINE
    front = question.profile.front
    read = _reading(question, traffic.prompt_text)
    processes = int(_processes(question)[0])
    interval = int(question.limits.stream_interval[0])
    said = _said(question, read, pooled=pooled)
    read_token = 0 if read is None else round(read.token_s * TICKS_PER_SECOND)
    if pooled:
        seen = Seen(front.request_s, front.token_s, front.response_s)
        return FrontEnd(seen, read_token, 0, 1, 0, said)
    return FrontEnd(
        Seen(front.request_s, 0.0, front.response_s),
        read_token,
        round(front.token_s / processes * TICKS_PER_SECOND),
        interval,
        processes,
        said,
    )


def client_side(question: Question) -> ClientSide:
    """Return what clients see later than the engines of candidates, prompts of prose.

    Args:
        question: What runs where.
    """
    front, osl = question.profile.front, question.load.osl
    read = _reading(question, PROSE)
    read_s = 0.0 if read is None else read.token_s
    each_C = np.ones(osl.size)
    # the first token goes alone, the others some at a time
    sendings = (1.0 + (osl - 1.0) / question.limits.stream_interval) / osl
    return ClientSide(
        request_s=front.request_s + read_s * question.load.isl,
        token_s=front.token_s * each_C,
        stream_s=front.token_s * sendings / _processes(question) * question.plan.attention_dp,
        response_s=front.response_s * each_C,
    )


def said_of_client(question: Question) -> str:
    """Return how much of TTFT lies outside the engine's steps, as the end of a sentence.

    Args:
        question: What runs where; told is the first candidate.
    """
    late_ms = 1e3 * float(client_side(question).late_s[0])
    pooled = question.scenarios[0].mode == "disaggregated"
    said = _said(question, _reading(question, PROSE), pooled=pooled)
    return f"TTFT includes {late_ms:.1f} ms of HTTP, tokenizing and streaming: {said}"


def _reading(question: Question, text: str) -> Tokenizing | None:
    """Return what a prompt token takes, None where prompts come as tokens."""
    if not question.profile.front.tokenizes:
        return None
    return tokenizing(question.model.architecture.vocab_size, text)


def _processes(question: Question) -> FloatArray:
    """Return the processes of a replica that tokenize and stream (C,)."""
    ranks_C: FloatArray = np.asarray(question.plan.attention_dp, np.float64)
    return ranks_C if question.profile.front.per_rank else np.ones_like(ranks_C)


def _said(question: Question, read: Tokenizing | None, *, pooled: bool) -> str:
    front = question.profile.front
    if front.request_s == front.token_s == 0.0 and read is None:
        return "front ends take no time"
    parts = [f"a request takes {1e3 * front.request_s:.1f} ms to the queue"]
    if read is not None:
        parts.append(f"a prompt token {1e6 * read.token_s:.2f} us to tokenize ({read.said})")
    several = int(question.limits.stream_interval[0])
    sent = "an output token" if several == 1 else f"{several} output tokens"
    parts.append(f"{sent} {1e6 * front.token_s:.3g} us to send")
    queue = "nobody waits for another there" if pooled else "one process does one after the other"
    sources = "; ".join((front.source, *(() if read is None else (read.source,))))
    return f"{', '.join(parts)}; {queue} (sources: {sources})"
