"""The first page, with its examples and saved questions, and parts of pages about a question."""

from __future__ import annotations

import base64
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode

from fastapi import Request  # noqa: TC002 - FastAPI reads the annotations
from fastapi.responses import RedirectResponse, Response
from starlette.exceptions import HTTPException

from perfatlas.declarations import commands
from perfatlas.quantities import PerfatlasError, UsageError, repr_for_error
from perfatlas.studies import save_question, saved_questions
from perfatlas.web.answers import Reply
from perfatlas.web.asking import (
    OTHER_SITE,
    TOO_SLOW,
    is_same_origin,
    json_reply,
    replied,
    request_body,
    set_once,
)
from perfatlas.web.catalogs import CATALOGS
from perfatlas.web.collected import answered, words_of
from perfatlas.web.exports import IMAGES, MEDIA, exported, kinds_of
from perfatlas.web.forms import path_of
from perfatlas.web.frontiers import frontier_chart, frontier_values
from perfatlas.web.pins import MAX_PINS, PIN, read_pins
from perfatlas.web.questions import FORMS, command_words, typical_fields
from perfatlas.web.rendering import html_page
from perfatlas.web.workers import Question

if TYPE_CHECKING:
    from collections.abc import Mapping

TRAINED: Final = (
    "model=meta-llama/Llama-3.1-70B&system=h100_sxm&gpus=512&tp=8&pp=4&global_batch=512"
)

SERVED: Final = "model=meta-llama/Llama-3.1-70B-Instruct&format=fp8&isl=2048&osl=512&tp=2"

FRONTIERS: Final = urlencode(
    [(PIN, f"{SERVED}&system={name}&batch=32") for name in ("h100_sxm", "mi355x")]
)

CARDS: Final = (  # title, what it answers, a question, the address of its picture
    (
        "How fast is this model on this GPU?",
        "Latency, throughput, cost, energy and memory of a plan, with what bounds them.",
        f"/estimate?{SERVED}&system=h200_sxm&batch=32",
        f"/picture/estimate?{SERVED}&system=h200_sxm&batch=32&chart=Decode",
    ),
    (
        "Which GPU serves it best?",
        "Scenarios side by side, and all of their batches on one frontier.",
        f"/estimate?{SERVED}&system=b200_sxm&batch=32&{FRONTIERS}",
        f"/frontier?{urlencode({PIN: f'{SERVED}&system=b200_sxm'})}&{FRONTIERS}",
    ),
    (
        "Which deployment meets my SLOs?",
        "The best plans within limits on latency, by tokens/s, cost or energy.",
        f"/search?{SERVED}&system=h200_sxm&gpus=8&slo_tpot_s=0.04&mode=static",
        f"/picture/search?{SERVED}&system=h200_sxm&gpus=8&slo_tpot_s=0.04&mode=static&chart=",
    ),
    (
        "What if the chip were different?",
        "Sliders for memory, compute, links and power of a chip, real or planned.",
        f"/estimate?{SERVED}&system=h200_sxm%7Bdevice.memory.bandwidth%3D8TB/s%7D&batch=32",
        f"/picture/estimate?{SERVED}&system=h200_sxm&batch=32&chart=Roofline",
    ),
    (
        "How long does a training step take?",
        "Step time, MFU, memory and where the time of a step goes.",
        f"/train?{TRAINED}",
        f"/picture/train?{TRAINED}&chart=",
    ),
)

OWN_FILES: Final = (  # what a file is, the address that explains it, whether there may be several
    ("profile of GPUs: what takes the time", "/profile?files=", True),
    ("config.json of a model: how fast it would be", "/estimate?edit=yes&model=", False),
    ("hardware file (TOML): a system of your own", "/estimate?edit=yes&system=", False),
    ("results of a benchmark: beside the prediction", "/validate/serving?edit=yes&results=", True),
    ("log of failures: what fails how often", "/fleet/report?edit=yes&subject=", False),
)

CHART_PARAMETER: Final = "chart"  # title of the chart of a picture


async def home_page(request: Request) -> Response:
    """Answer with the first page."""
    return html_page("home.html", 200, here="/", title="perfatlas", **_home_content(request))


def _home_content(request: Request, problem: str = "") -> dict[str, Any]:
    """Return the questions of the first page: cards, saved ones, all commands, catalogs."""
    try:
        saved = list(saved_questions().items())
    except PerfatlasError as error:
        saved, problem = [], problem or str(error)
    verbs = [
        (path_of(name), name, commands()[name][1].help, typical_fields(name)) for name in FORMS
    ]
    return {
        "jobs": request.app.state.jobs.running(),
        "own_files": OWN_FILES,
        "cards": CARDS, "saved": saved, "problem": problem, "verbs": verbs, "catalogs": CATALOGS
    }  # fmt: skip


async def picture(request: Request, name: str) -> Response:
    """Answer with a chart of a question, the part of a page."""
    command = name.replace("/", " ")
    if command not in FORMS:
        raise HTTPException(404)
    try:
        values = set_once(request.query_params.multi_items())
        title = values.pop(CHART_PARAMETER, "")
        words = command_words(command, values)
    except PerfatlasError:
        raise HTTPException(404) from None
    reply = await replied(request, Question(words, command, has_page=True))
    body = reply.body.partition(f'<figure aria-label="{escape(title)}')
    figure = f"{body[1]}{body[2]}".removeprefix("<figure").partition("<details")[0]
    return Response(f"<figure{figure}</figure>" if figure else "", media_type="text/html")


async def saved_question(request: Request) -> Response:
    """Keep a question under a name, or forget it; answer with its page."""
    if not is_same_origin(request):
        return json_reply(OTHER_SITE)
    try:
        body = await request_body(request)
    except TimeoutError:
        return json_reply(TOO_SLOW)
    try:
        values = set_once(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
        link = values.get("address", "")
        is_question = link.partition("?")[0] in {path_of(command) for command in FORMS}
        if link and not is_question:
            raise UsageError(f"{repr_for_error(link)} is no question of this server")
        save_question(values.get("name", ""), link or None)
    except PerfatlasError as problem:
        content = _home_content(request, str(problem))
        return html_page("home.html", 400, here="/", title="perfatlas", **content)
    return RedirectResponse(link or "/", 303)


async def frontier_part(request: Request) -> Response:
    """Answer with the frontiers of pinned questions in one chart, the part of a page."""
    command, here = "estimate", path_of("estimate")
    found, missing = [], []
    try:
        for pin in read_pins(request.query_params.getlist(PIN), MAX_PINS + 1):
            words = command_words(command, frontier_values(pin))
            reply = await replied(request, Question(words, command))
            if reply.is_answer:
                found.append((pin, reply.answer["results"]["frontier"]))
            else:
                missing.append(str(reply.answer["error"]))
    except PerfatlasError as problem:
        missing.append(str(problem))
    chart = frontier_chart(found, here) if found else None
    return html_page("frontier.html", 200, chart=chart, missing=missing)


def exports_of(command: str, values: Mapping[str, str], reply: Reply) -> list[tuple[str, str]]:
    """Return the files that an answer can become: each kind with its address."""
    here = f"{path_of(command)}?{urlencode(values)}"
    return [(kind, f"/export/{kind}{here}") for kind in kinds_of(command, reply.answer, reply.body)]


async def exported_file(request: Request, kind: str, name: str) -> Response:
    """Answer with a question as a file."""
    command = name.replace("/", " ")
    if kind not in MEDIA or command not in FORMS:
        raise HTTPException(404)
    try:
        values = set_once(request.query_params.multi_items())
        question = Question(await words_of(request, command, values), command)
    except PerfatlasError as problem:
        return json_reply(Reply.refused(problem.error_code, str(problem)))
    if kind in IMAGES:
        reply = await replied(request, question._replace(image=kind))
    else:
        reply = await answered(request, question, values)
    if not reply.is_answer:
        return json_reply(reply)
    if kind not in IMAGES and kind not in kinds_of(command, reply.answer):
        raise HTTPException(404)
    headers = {"Content-Disposition": f'attachment; filename="{command.replace(" ", "_")}.{kind}"'}
    content = base64.b64decode(reply.image) if kind in IMAGES else exported(kind, reply.answer)
    return Response(content, media_type=MEDIA[kind], headers=headers)
