"""How replicas are operated, as flags of `perfatlas simulate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from cyclopts import Group, Parameter

from perfatlas.cli.vocabulary import Count, default

_OPERATION: Final = Group("Replicas", sort_key=3)


@Parameter(name="*", group=_OPERATION)
@dataclass(frozen=True, kw_only=True)
class OperationFlags:
    """How replicas share requests.

    Args:
        routing: Who gets a request: round_robin, least_loaded, random, or prefix_aware: who got the
            beginning of its prompt.
        cache_threshold: Of prefix_aware: share of a prompt above which it is followed.
        balance_abs_threshold: Of prefix_aware: requests by which loads may differ,
        balance_rel_threshold: and how many times; past both the least loaded takes all.
    """

    routing: Annotated[
        Literal["round_robin", "least_loaded", "random", "prefix_aware"] | None,
        default("round_robin"),
    ] = None
    cache_threshold: Annotated[float | None, default("0.3")] = None
    balance_abs_threshold: Annotated[Count, default("64")] = None
    balance_rel_threshold: Annotated[float | None, default("1.5")] = None
