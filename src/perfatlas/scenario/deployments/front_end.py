"""What lies between a client and the engine, the same for closed forms and simulations.

Shape legend: C candidates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfatlas.serving.closed_form import front_end_note, processes, reading
from perfatlas.serving.outcome import ClientDelays
from perfatlas.serving.requests import TICKS_PER_SECOND

if TYPE_CHECKING:
    from perfatlas.scenario.fields import Traffic
    from perfatlas.step import Candidates


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

    seen: ClientDelays
    read_token: int
    stream_token: int
    stream_interval: int
    readers: int
    said: str


AT_ENGINE: Final = FrontEnd(
    seen=ClientDelays(),
    read_token=0,
    stream_token=0,
    stream_interval=1,
    readers=1,
    said="latencies inside the engine: HTTP, tokenizing and detokenizing take no time",
)


def front_end(question: Candidates, traffic: Traffic, *, pooled: bool) -> FrontEnd:
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
    read = reading(question, traffic.prompt_text)
    several = int(processes(question)[0])
    interval = int(question.limits.stream_interval[0])
    said = front_end_note(question, read, pooled=pooled)
    read_token = 0 if read is None else round(read.token_s * TICKS_PER_SECOND)
    if pooled:
        seen = ClientDelays(front.request_s, front.token_s, front.response_s)
        return FrontEnd(seen, read_token, 0, 1, 0, said)
    return FrontEnd(
        ClientDelays(front.request_s, 0.0, front.response_s),
        read_token,
        round(front.token_s / several * TICKS_PER_SECOND),
        interval,
        several,
        said,
    )
