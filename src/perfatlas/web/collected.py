"""Files of clients, runs of sweeps, and reports of several questions."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from fastapi import Request  # noqa: TC002 - FastAPI reads the annotations
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from perfatlas.quantities import PerfatlasError, UsageError, repr_for_error
from perfatlas.studies import saved_questions
from perfatlas.web.answers import Reply
from perfatlas.web.asking import (
    LONG,
    OTHER_SITE,
    TOO_SLOW,
    is_same_origin,
    json_reply,
    look_up,
    replied,
    request_body,
    too_large,
    while_there,
)
from perfatlas.web.catalogs import CatalogTable
from perfatlas.web.file_forms import SWEEP
from perfatlas.web.forms import path_of
from perfatlas.web.pins import MAX_PINS, PIN, address, read_pins
from perfatlas.web.questions import FORMS, command_words
from perfatlas.web.rendering import html_page
from perfatlas.web.sweep_form import study_toml
from perfatlas.web.uploads import MAX_FILE_BYTES, UPLOAD_LIMIT_S, located, without_references
from perfatlas.web.workers import Question

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.web.jobs import Jobs
    from perfatlas.web.uploads import Uploads

COMMAND: Final = "command"  # key of a question of a report, beside its fields
RUN_SHOWN: Final = "runs show"
LISTED: Final = ("id", "state", "command", "points", "created")
_RUN: Final = re.compile(r"[\w-]{1,100}", re.ASCII)


async def upload(request: Request, name: str) -> Response:
    """Keep a file of a client; answer with its reference, a value of forms."""
    if not is_same_origin(request):
        return json_reply(OTHER_SITE)
    uploads: Uploads = request.app.state.uploads
    try:
        async with uploads.arriving:
            content = await request_body(request, MAX_FILE_BYTES, UPLOAD_LIMIT_S)
            return JSONResponse({"file": await asyncio.to_thread(uploads.keep, name, content)})
    except PerfatlasError as problem:
        return json_reply(Reply.refused(problem.error_code, str(problem)))
    except HTTPException:
        return json_reply(too_large(MAX_FILE_BYTES))
    except TimeoutError:
        return json_reply(TOO_SLOW)


async def words_of(request: Request, command: str, values: Mapping[str, str]) -> list[str]:
    """Return the command line of a question; the study of a sweep is kept as a file.

    Raises:
        PerfatlasError: A value is refused.
    """
    if command != SWEEP or not values:
        return command_words(command, values)
    if set(values) == {"study"}:
        words = command_words(command, values)
    else:
        uploads: Uploads = request.app.state.uploads
        [study] = await asyncio.to_thread(located, [study_toml(values)], str(uploads.path))
        words = [SWEEP, await _kept(request, "study.toml", study)]
    return [*words, "--resume", "--jobs=1"]  # a worker process starts no others


async def answered(request: Request, question: Question, values: Mapping[str, str]) -> Reply:
    """Return the reply to a question, of its job if it is a long one."""
    if question.command not in LONG:
        return await replied(request, question)
    jobs: Jobs = request.app.state.jobs
    link = address(path_of(question.command), values, [])
    return await while_there(request, jobs.reply(question._replace(has_page=True), link))


async def _kept(request: Request, name: str, text: str) -> str:
    uploads: Uploads = request.app.state.uploads
    return await asyncio.to_thread(uploads.keep, name, text.encode())


async def runs_page(request: Request) -> Response:
    """Answer with the list of runs."""
    reply = await look_up(request, ["runs", "list"], "runs list")
    rows = reply.answer["results"]["runs"] if reply.is_answer else []
    cells = [[str(row[name]) for name in LISTED] for row in rows]
    link = f"{path_of(RUN_SHOWN)}?run="
    texts = tuple(range(len(LISTED)))
    return html_page(
        "catalog.html",
        reply.status,
        here="/runs",
        title="perfatlas runs",
        heading="Runs of sweeps",
        line="perfatlas runs list",
        tables=[CatalogTable(LISTED, cells, links=link, texts=texts)] if rows else [],
        catalogs=[],
        refused=None if reply.is_answer else reply.answer,
    )


def report_address(command: str, questions: Sequence[Mapping[str, str]]) -> str:
    """Return the address of the report of questions of one command."""
    pins = [(PIN, urlencode({COMMAND: command, **values})) for values in questions]
    return f"/report?{urlencode(pins)}"


async def report_page(request: Request) -> Response:
    """Answer with a report of several questions and runs, or with the choice of them."""
    body, refused, words = "", None, ["report"]
    choices: list[tuple[str, str]] = []
    try:
        choices = await _choices(request)
        pins = read_pins(request.query_params.getlist(PIN), MAX_PINS + 1)
        if pins:
            words += [
                await _saved_answer(request, f"answer_{number}.json", pin)
                for number, pin in enumerate(pins, 1)
            ]
            reply = await replied(request, Question(words, "report", has_page=True))
            body, refused = reply.body, None if reply.is_answer else reply.answer
    except PerfatlasError as problem:
        pins, refused = [], Reply.refused(problem.error_code, str(problem)).answer
    chosen = [urlencode(pin) for pin in pins]
    return html_page(
        "report.html",
        200 if refused is None else 400,
        here="/report",
        title="perfatlas report",
        choices=[(name, text, text in chosen) for name, text in choices],
        chosen=chosen,
        words=without_references(shlex.join(["perfatlas", *words])),
        body=body,
        refused=refused,
    )


async def _choices(request: Request) -> list[tuple[str, str]]:
    """Return what a report may have: saved questions and complete runs, each with its query."""
    runs = await look_up(request, ["runs", "list"], "runs list")
    rows = runs.answer["results"]["runs"] if runs.is_answer else []
    found = [
        (
            f"{row['command']} of {row['created'][:10]}, run {row['id']}",
            urlencode({COMMAND: RUN_SHOWN, "run": row["id"]}),
        )
        for row in rows
        if row["state"] == "complete"
    ]
    for name, link in saved_questions().items():
        path, _, query = link.partition("?")
        command = path.strip("/").replace("/", " ")
        values = {key: text for key, text in parse_qsl(query) if key != PIN}
        if command in FORMS and values:
            found.append((name, urlencode({COMMAND: command, **values})))
    return found


async def _saved_answer(request: Request, name: str, pin: Mapping[str, str]) -> str:
    """Return an argument of `report`: the file of the answer to a question, or the id of a run."""
    command = pin.get(COMMAND, "")
    values = {key: text for key, text in pin.items() if key != COMMAND}
    if command not in FORMS:
        raise UsageError(f"{PIN}: {COMMAND} = {repr_for_error(command)} is no question")
    if command == RUN_SHOWN:
        if not _RUN.fullmatch(run := values.get("run", "")):
            raise UsageError(f"run = {repr_for_error(run)} is no run")
        return run
    question = Question(await words_of(request, command, values), command, has_page=True)
    reply = await answered(request, question, values)
    if not reply.is_answer:
        raise UsageError(f"{command}: {reply.answer['error']}")
    if reply.answer["command"] == SWEEP:
        return str(reply.answer["results"]["run"])
    return await _kept(request, name, json.dumps(reply.answer))
