"""Requests: their values, limits and origin, and the replies of worker processes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from perfatlas.quantities import UsageError, repr_for_error
from perfatlas.web.answers import Reply
from perfatlas.web.workers import Question, Workers

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from fastapi import Request

LONG: Final = (
    *("search", "search training", "simulate", "fleet schedule", "fleet plan", "fleet report"),
    *("sweep", "profile", "validate serving"),
)

CHANGING: Final = ("runs show",)  # commands whose answer changes while others work

DISCONNECT_CHECK_S: Final = 0.5  # between two looks at whether the client is still there

MAX_KEPT_ANSWERS: Final = 64  # with their pages, some 50 kB each

KEPT_S: Final = 120.0  # files of a user, such as calibrations, may change

MAX_REQUEST_BYTES: Final = 32_768  # of a request

REQUEST_LIMIT_S: Final = 10.0  # from the first byte of a request to its last

TOO_SLOW: Final = Reply.refused(
    "usage", f"the request did not arrive within {REQUEST_LIMIT_S:g} s", status=408
)

OTHER_SITE: Final = Reply.refused(
    "usage", "a page of another site asks; it may only link to pages of this server", status=403
)


def too_large(most: int = MAX_REQUEST_BYTES) -> Reply:
    """Return the reply to a request of more bytes than are read."""
    text = f"the request has more than {most:,} bytes, the most that this server reads"
    return Reply.refused("too_large", text, status=413)


def json_reply(reply: Reply) -> Response:
    """Return a reply as JSON."""
    return JSONResponse(reply.answer, reply.status)


def set_once(pairs: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    """Return values by field."""
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for name in members if [n for n, _ in pairs].count(name) > 1)
        raise UsageError(f"{repr_for_error(twice)} is set twice")
    return members


async def request_body(
    request: Request, most: int = MAX_REQUEST_BYTES, limit_s: float = REQUEST_LIMIT_S
) -> bytes:
    """Return the body of a request.

    Args:
        most: Bytes that it may have.
        limit_s: Time in which it must arrive [s].

    Raises:
        HTTPException: It is too large.
        TimeoutError: It does not arrive in time.
    """
    body = bytearray()
    async with asyncio.timeout(limit_s):
        async for part in request.stream():
            body += part
            if len(body) > most:
                raise HTTPException(413)
    return bytes(body)


def drop_progress(_: str) -> None:
    """Drop a line of progress."""


def workers_of(request: Request, command: str) -> Workers:
    """Return the processes that answer a command."""
    workers: Workers = request.app.state.long if command in LONG else request.app.state.short
    return workers


async def while_there(request: Request, answering: Coroutine[Any, Any, Reply]) -> Reply:
    """Return a reply; it is given up when the client has gone."""
    task = asyncio.ensure_future(answering)
    try:
        while not (await asyncio.wait({task}, timeout=DISCONNECT_CHECK_S))[0]:
            if await request.is_disconnected():
                return Reply.refused("usage", "the client has gone", status=499)
        reply: Reply = task.result()
        return reply
    finally:
        task.cancel()


async def replied(request: Request, question: Question) -> Reply:
    """Return the reply to a question, kept for the pages that compare with it."""
    answers: dict[tuple[str, ...], tuple[float, Reply]] = request.app.state.answers
    key = (*question.words, str(question.has_page))
    if known := kept_reply(request, question):
        answers[key] = answers.pop(key)  # the newest is last
        return known
    asking = workers_of(request, question.command).ask(question, drop_progress)
    reply = await while_there(request, asking)
    if reply.is_answer and question.command not in CHANGING:
        answers[key] = (time.monotonic(), reply)
        while len(answers) > MAX_KEPT_ANSWERS:
            del answers[next(iter(answers))]
    return reply


def kept_reply(request: Request, question: Question) -> Reply | None:
    """Return the reply to a question that was asked a short while ago."""
    key = (*question.words, str(question.has_page))
    asked_s, reply = request.app.state.answers.get(key, (-KEPT_S, None))
    return reply if time.monotonic() - asked_s < KEPT_S else None


async def look_up(request: Request, words: list[str], command: str = "catalog") -> Reply:
    """Return the reply to a command line of a quick command."""
    asking = request.app.state.short.ask(Question(words, command), drop_progress)
    return await while_there(request, asking)


def is_same_origin(request: Request) -> bool:
    """Return whether a page of this server asks, or a client that is no browser."""
    headers = request.headers
    if site := headers.get("sec-fetch-site"):
        return site == "same-origin"
    origin = headers.get("origin")  # alone where the server is no secure context
    return origin is None or origin.partition("://")[2] == headers.get("host")


Value = TypeVar("Value")
