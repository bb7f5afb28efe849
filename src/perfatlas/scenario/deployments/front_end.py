"""The front end between client and engine, shared by closed forms and simulations.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.inference import front_end_note, reading
from perfatlas.serving.outcome import ClientDelays
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from perfatlas.scenario.fields import Traffic
    from perfatlas.step import Candidates


class FrontEnd(NamedTuple):
    """Front end of a replica, for a simulation.

    Args:
        seen: Latency that a client sees in addition.
        read_token: Time to tokenize one prompt token, serial per thread [ps].
        stream_token: Time to send one chunk of output tokens, serial [ps].
        stream_interval: Output tokens per chunk, after the first.
        stream_backlog: Whether chunks wait for those of earlier steps: the times are measured.
        readers: Tokenizer threads per replica, 0 for one per request.
        note: Assumptions, a sentence.
    """

    seen: ClientDelays
    read_token: int
    stream_token: int
    stream_interval: int
    stream_backlog: bool
    readers: int
    note: str


AT_ENGINE: Final = FrontEnd(
    seen=ClientDelays(),
    read_token=0,
    stream_token=0,
    stream_interval=1,
    stream_backlog=True,
    readers=1,
    note="latencies are measured at the engine, without HTTP, tokenization and detokenization",
)


def front_end(question: Candidates, traffic: Traffic, *, pooled: bool) -> FrontEnd:
    """Return the front end of a replica.

    Args:
        question: The candidate.
        traffic: The traffic, and where latencies are measured.
        pooled: Whether it serves prefill and decode workers: a router tokenizes and streams with
            as many threads as needed, so that requests do not wait for each other.
    """
    if traffic.measured_at == "engine":
        return AT_ENGINE
    front = question.profile.front
    read = reading(question, traffic.prompt_text)
    several = int(question.limits.server_processes[0])
    interval = int(question.limits.stream_interval[0])
    note = front_end_note(question, read, pooled=pooled)
    read_token = 0 if read is None else round(read.token_s * TICKS_PER_SECOND)
    if pooled:
        seen = ClientDelays(front.request_s, front.token_s, front.response_s)
        return AT_ENGINE._replace(seen=seen, read_token=read_token, readers=0, note=note)
    return FrontEnd(
        ClientDelays(front.request_s, 0.0, front.response_s),
        read_token,
        round(front.token_s / several * TICKS_PER_SECOND),
        interval,
        not front.assumed,
        several,
        note,
    )
