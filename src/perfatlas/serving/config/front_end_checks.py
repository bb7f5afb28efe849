"""Validation of front-end times against the range of the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.quantities import InvalidSpecError, significant
from perfatlas.serving.config.checks import MAX_DURATION_PS

if TYPE_CHECKING:
    from perfatlas.serving.config.engines import Fleet
    from perfatlas.serving.requests import Requests


def check_front(fleet: Fleet, requests: Requests) -> None:
    """Validate that front-end times do not overflow the clock."""
    sends = max((group.stream_token for group in fleet.groups), default=0)
    for name, each, tokens in (
        ("read_token", fleet.read_token, requests.isl_N),
        ("stream_token", sends, requests.osl_N),
    ):
        total = each * int(tokens.sum())
        if total > MAX_DURATION_PS:
            raise InvalidSpecError(
                f"{name} {each}: front ends need {significant(total / 1e12)} s for"
                f" {int(tokens.sum()):,}"
                " tokens; the maximum is 1,000,000 s: simulate fewer requests"
            )
