"""What front ends may take: what the clock can add up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving.config.checks import SAFE

if TYPE_CHECKING:
    from perfatlas.serving.config.engines import Fleet
    from perfatlas.serving.requests import Requests


def check_front(fleet: Fleet, requests: Requests) -> None:
    """Refuse front ends that take longer than the clock can add up.

    Args:
        fleet: Engines and their front ends.
        requests: What arrives.
    """
    sends = max((kind.stream_token for kind in fleet.kinds), default=0)
    for name, each, tokens in (
        ("read_token", fleet.read_token, requests.isl_N),
        ("stream_token", sends, requests.osl_N),
    ):
        total = each * int(tokens.sum())
        if total > SAFE:
            raise InvalidSpecError(
                f"{name} {each}: front ends need {total / 1e12:.3g} s for {int(tokens.sum()):,}"
                " tokens; the clock adds up 1,000,000 s: simulate fewer requests"
            )
