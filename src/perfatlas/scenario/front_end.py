"""What lies between a client and the queue of an engine, and behind its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perfatlas.engines import tokenizing
from perfatlas.serving import TICKS_PER_SECOND, Seen

if TYPE_CHECKING:
    from perfatlas.scenario.question import Question
    from perfatlas.scenario.traffic import Traffic


class FrontEnd(NamedTuple):
    """What the front end of a replica takes.

    Args:
        seen: What a client waits for besides.
        read_token: To tokenize a token of a prompt, requests one after the other [ps].
        stream_token: To send an output token, one after the other [ps].
        readers: Threads of a replica that tokenize, 0 for as many as there are requests.
        said: What is assumed, in a sentence.
    """

    seen: Seen
    read_token: int
    stream_token: int
    readers: int
    said: str


AT_ENGINE = FrontEnd(
    Seen(), 0, 0, 1, "latencies inside the engine: HTTP, tokenizing and detokenizing take no time"
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
    read_s, of_text = 0.0, ""
    if front.tokenizes:
        found = tokenizing(question.model.architecture.vocab_size, traffic.prompt_text)
        read_s = found.token_s
        of_text = f", {1e6 * read_s:.2f} us for every prompt token ({found.said}: {found.source})"
    token_s = front.token_s / traffic.stream_interval
    processes = int(question.plan.attention_dp[0]) if front.per_rank else 1
    queue = "" if pooled else "; of either a front end does one after the other"
    said = (
        f"a client's request takes {1e3 * front.request_s:.1f} ms to the queue{of_text}, and its"
        f" token {1e6 * token_s:.3g} us back{queue} ({front.source})"
    )
    if pooled:
        seen = Seen(front.request_s, token_s, front.response_s)
        return FrontEnd(seen, round(read_s * TICKS_PER_SECOND), 0, 0, said)
    return FrontEnd(
        Seen(front.request_s, 0.0, front.response_s),
        round(read_s * TICKS_PER_SECOND),
        round(token_s / processes * TICKS_PER_SECOND),
        processes,
        said,
    )
