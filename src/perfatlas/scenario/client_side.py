"""What lies between a client and the engine, the same for closed forms and simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.serving import Seen

if TYPE_CHECKING:
    from perfatlas.engines import EngineProfile


def seen_by_client(profile: EngineProfile) -> Seen:
    """Return what a client sees later than the engine.

    Args:
        profile: The engine, with its HTTP server.
    """
    return Seen(profile.front.request_s, profile.front.token_s, profile.front.response_s)


def said_of_client(profile: EngineProfile) -> str:
    """Return how much of TTFT lies outside the engine's steps, as the end of a sentence.

    Args:
        profile: The engine, with its HTTP server.
    """
    late_s = seen_by_client(profile).late_s
    return (
        f"TTFT includes {1e3 * late_s:.1f} ms of HTTP, tokenizing and detokenizing"
        f" ({profile.front.source})"
    )
