"""The application: forms, answers, catalogs and the REST API."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import socket
import time
from functools import cache
from html import escape
from importlib import resources
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException

from perfatlas.declarations import commands
from perfatlas.quantities import PerfatlasError, UsageError, repr_for_error
from perfatlas.studies import save_question, saved_questions
from perfatlas.version import __version__
from perfatlas.vocabulary.fields import json_schema
from perfatlas.web.answers import Reply
from perfatlas.web.catalogs import CATALOGS, catalog_words, entry, listed
from perfatlas.web.changes import change_text
from perfatlas.web.exports import MEDIA, exported, kinds_of
from perfatlas.web.forms import form_of, path_of
from perfatlas.web.frontiers import frontier_chart, frontier_values
from perfatlas.web.jobs import Jobs
from perfatlas.web.pins import PIN, Pinned, address, compared, names_of, read_pins
from perfatlas.web.questions import FORMS, SWITCHES, command_words, form_fields, typical_fields
from perfatlas.web.sliders import PREFIX, Slider, moved, sliders_of
from perfatlas.web.workers import SEARCH_NICENESS, Question, Settings, Workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence

    from jinja2 import Environment
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

Value = TypeVar("Value")
LONG: Final = ("search", "search training", "simulate", "fleet schedule")
CHART_PARAMETER: Final = "chart"  # title of the chart of a picture
EDIT_PARAMETER: Final = "edit"  # parameter that shows a form with its values instead of the answer
MAX_KEPT_ANSWERS: Final = 64  # with their pages, some 50 kB each
KEPT_S: Final = 120.0  # files of a user, such as calibrations, may change
DISCONNECT_CHECK_S: Final = 0.5  # between two looks at whether the client is still there
MAX_REQUEST_BYTES: Final = 32_768  # of a request
REQUEST_LIMIT_S: Final = 10.0  # from the first byte of a request to its last
TOO_LARGE: Final = Reply.refused(
    "too_large",
    f"the request has more than {MAX_REQUEST_BYTES:,} bytes, the most that this server reads",
    status=413,
)
TOO_SLOW: Final = Reply.refused(
    "usage", f"the request did not arrive within {REQUEST_LIMIT_S:g} s", status=408
)
OTHER_SITE: Final = Reply.refused(
    "usage", "a page of another site asks; it may only link to pages of this server", status=403
)
CHART_ATTRIBUTE: Final = 'class="chart"'
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; connect-src 'self';"
        " style-src 'self' 'unsafe-inline';"
        " img-src 'self' data: blob:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
STATIC_FILES: Final = {
    "page.css": ("perfatlas.report.pages", "templates/page.css", "text/css"),
    "draw.js": ("perfatlas.report.pages", "templates/draw.js", "text/javascript"),
    "web.css": ("perfatlas.web", "templates/web.css", "text/css"),
    "plotly.js": ("perfatlas", "data/plotly/plotly-cartesian.min.js.gz", "text/javascript"),
    "htmx.js": ("perfatlas", "data/htmx/htmx.min.js.gz", "text/javascript"),
    "studio.js": ("perfatlas.web", "templates/studio.js", "text/javascript"),
}
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
COMMANDS_IN_HEADER: Final = ("estimate", "compare", "search", "train", "goodput", "kernel gemm")


def web_application(settings: Settings) -> FastAPI:
    """Return the application; its processes start and end with it.

    Args:
        settings: Limits of questions.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.short = Workers(settings.workers, settings.short_limit_s)
        app.state.page_after_s = settings.page_after_s
        app.state.answers, app.state.systems = {}, {}
        app.state.long = Workers(max(1, settings.workers - 1), settings.limit_s, SEARCH_NICENESS)
        app.state.jobs = Jobs(app.state.long)
        try:
            yield
        finally:
            app.state.jobs.close()
            app.state.short.close()
            app.state.long.close()

    app = FastAPI(
        title="perfatlas", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.add_middleware(_Guarded, host=settings.host)
    app.add_exception_handler(HTTPException, _http_error)
    for command in FORMS:
        _add_command(app, command)
    app.add_api_route("/", _home, include_in_schema=False)
    app.add_api_route("/picture/{name:path}", _picture, include_in_schema=False)
    app.add_api_route("/progress/{key}", _progress, include_in_schema=False)
    app.add_api_route("/cancel/{key}", _cancel, methods=["POST"], include_in_schema=False)
    app.add_api_route("/saved", _save, methods=["POST"], include_in_schema=False)
    app.add_api_route("/frontier", _frontier, include_in_schema=False)
    app.add_api_route("/export/{kind}/{name:path}", _export, include_in_schema=False)
    app.add_api_route("/static/{name}", _static, include_in_schema=False)
    app.add_api_route("/catalog/{kind}", _catalog, include_in_schema=False)
    app.add_api_route("/catalog/{kind}/{name:path}", _catalog, include_in_schema=False)
    about: dict[str, Any] = {"summary": "A catalog.", "responses": API_RESPONSES}
    app.add_api_route("/api/catalog/{kind}", _catalog_answer, **about)
    about = {"summary": "An entry of a catalog.", "responses": API_RESPONSES}
    app.add_api_route("/api/catalog/{kind}/{name:path}", _catalog_answer, **about)
    return app


class _Guarded:
    """Adds the security headers to every response, and refuses what is too large or misdirected.

    Args:
        host: Address that the server listens on. If that is one of this machine alone, no other
            name is answered, so that no other site can give the address a name of its own.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app, self._host = app, host
        self._is_local = bool(host) and _is_loopback(str(socket.getaddrinfo(host, None)[0][4][0]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SECURITY_HEADERS)
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        answer: ASGIApp = self._app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            length, host = headers.get("content-length", "0"), headers.get("host", "")
            size = int(length) if length.isdecimal() else MAX_REQUEST_BYTES + 1
            if self._is_local and not _is_loopback(name := _host_name(host)) and name != self._host:
                text = f"the request is for the host {repr_for_error(host)}"
                text += ", and this server is localhost or an address of it"
                answer = _json(Reply.refused("usage", text))
            elif headers.get("sec-fetch-site") == "cross-site" and not (
                scope["method"] == "GET"
                and headers.get("sec-fetch-mode") == "navigate"
                and headers.get("sec-fetch-dest") == "document"
            ):
                answer = _json(OTHER_SITE)
            elif max(size, len(scope["query_string"])) > MAX_REQUEST_BYTES:
                answer = _json(TOO_LARGE)
            if scope["method"] == "HEAD":  # that of GET; the server drops its body
                scope = {**scope, "method": "GET"}
        await answer(scope, receive, guarded)


def _host_name(header: str) -> str:
    """Return the name or address in a Host header, without its port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    """Return whether a host is an address of this machine alone, or localhost."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _json(reply: Reply) -> Response:
    return JSONResponse(reply.answer, reply.status)


async def _http_error(request: Request, problem: Exception) -> Response:
    """Answer a request that is no question."""
    status = getattr(problem, "status_code", 404)
    missing = f"there is no page {repr_for_error(request.url.path)}"
    texts = {404: missing, 405: "method not allowed"}
    reply = Reply.refused("usage", texts.get(status, "the request is invalid"), status=status)
    reply = TOO_LARGE if status == TOO_LARGE.status else reply
    headers = getattr(problem, "headers", None)
    if request.url.path.startswith("/api"):
        return JSONResponse(reply.answer, status, headers)
    return _html(
        "question.html", status, here="", title="perfatlas", form=None, refused=reply.answer
    )


def _add_command(app: FastAPI, command: str) -> None:
    """Add the page and the API of a command."""

    async def page(request: Request) -> Response:
        return await _page(request, command)

    async def ask(request: Request) -> Response:
        return await _api(request, command)

    path, schema, example = path_of(command), _schema(command), typical_fields(command)
    app.add_api_route(path, page, include_in_schema=False)
    about: dict[str, Any] = {
        "summary": commands()[command][1].help,
        "responses": API_RESPONSES,
        "tags": [command.partition(" ")[0]],
    }
    parameters = [
        {
            "name": name,
            "in": "query",
            "required": name in schema["required"],
            "description": row.get("description", ""),
            "schema": {key: value for key, value in row.items() if key != "description"},
            **({"example": example[name]} if name in example else {}),
        }
        for name, row in schema["properties"].items()
    ]
    content = {"application/json": {"schema": schema, "example": example}}
    body = {"required": True, "content": content}
    name = command.replace(" ", "_")
    app.add_api_route(
        f"/api{path}",
        ask,
        operation_id=f"{name}_get",
        openapi_extra={"parameters": parameters},
        **about,
    )
    app.add_api_route(
        f"/api{path}",
        ask,
        methods=["POST"],
        operation_id=f"{name}_post",
        openapi_extra={"requestBody": body},
        **about,
    )


NO_ANSWER: Final = {
    "description": "Why there is no answer.",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error_code", "error", "advice"],
                "properties": {
                    "error_code": {"type": "string"},
                    "error": {"type": "string"},
                    "advice": {"type": "array", "items": {"type": "string"}},
                },
            }
        }
    },
}
API_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The object that --json writes.", "content": {"application/json": {}}},
    "4XX": NO_ANSWER,
    "5XX": NO_ANSWER,
}


def _schema(command: str) -> dict[str, Any]:
    """Return the JSON schema of a question."""
    schema = json_schema(command, form_fields(command))
    schema.pop("$schema")  # that of OpenAPI holds
    for name, text in SWITCHES.get(command, {}).items():
        schema["properties"][name] = {"type": "boolean", "description": text}
    return schema


def _values(request: Request) -> dict[str, str]:
    """Return the values of a query by field."""
    return _set_once(request.query_params.multi_items())


def _set_once(pairs: Sequence[tuple[str, Value]]) -> dict[str, Value]:
    """Return values by field."""
    members = dict(pairs)
    if len(members) < len(pairs):
        twice = next(name for name in members if [n for n, _ in pairs].count(name) > 1)
        raise UsageError(f"{repr_for_error(twice)} is set twice")
    return members


async def _posted(request: Request) -> dict[str, str]:
    """Return the values of a JSON object by field, as text."""
    body = await _body(request)
    try:
        values = json.loads(body, parse_constant=_no_constant, object_pairs_hook=_set_once)
    except (ValueError, RecursionError) as problem:
        raise UsageError("the body is not a JSON object") from problem
    if not isinstance(values, dict):
        raise UsageError("the body is not a JSON object")
    return {name: _text(name, value) for name, value in values.items() if value is not None}


async def _body(request: Request) -> bytes:
    """Return the body of a request.

    Raises:
        HTTPException: It is too large.
        TimeoutError: It does not arrive in time.
    """
    body = bytearray()
    async with asyncio.timeout(REQUEST_LIMIT_S):
        async for part in request.stream():
            body += part
            if len(body) > MAX_REQUEST_BYTES:
                raise HTTPException(TOO_LARGE.status)
    return bytes(body)


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _text(name: str, value: object) -> str:
    """Return a JSON value as a user writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return value
        case list() if all(isinstance(item, str | int | float) for item in value):
            return ",".join(_text(name, one) for one in value)
        case _:
            raise UsageError(f"{repr_for_error(name)}: expected a text, a number or a list")


async def _api(request: Request, command: str) -> Response:
    """Answer a question with the object of --json."""
    try:
        values = await _posted(request) if request.method == "POST" else _values(request)
        question = Question(command_words(command, values), command)
    except PerfatlasError as problem:
        reply = Reply.refused(problem.error_code, str(problem))
    except TimeoutError:
        reply = TOO_SLOW
    else:
        reply = await _while_there(
            request, _workers(request, command).ask(question, _drop_progress)
        )
    return _json(reply)


def _drop_progress(_: str) -> None:
    """Drop a line of progress."""


def _workers(request: Request, command: str) -> Workers:
    workers: Workers = request.app.state.long if command in LONG else request.app.state.short
    return workers


async def _while_there(request: Request, answering: Coroutine[Any, Any, Reply]) -> Reply:
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


async def _page(request: Request, command: str) -> Response:
    """Answer with a form, with the answer to it, or with the part of a page that changed."""
    values: dict[str, str] = {}
    here = path_of(command)
    try:
        pins = read_pins(request.query_params.getlist(PIN))
        pairs = [pair for pair in request.query_params.multi_items() if pair[0] != PIN]
        values = _set_once(pairs)
        editing = values.pop(EDIT_PARAMETER, "") != ""
        values = await _without_sliders(request, values)
        kept = {name: value for name, value in values.items() if value.strip()}
        if len(kept) < len(pairs) and not (editing or _is_redraw(request)):
            return RedirectResponse(address(here, kept, pins) if kept else here, 303)
        values = kept if not editing else values
        question = Question(command_words(command, values), command, has_page=True)
        for pin in pins:
            command_words(command, pin)
    except PerfatlasError as problem:
        reply = Reply.refused(problem.error_code, str(problem))
        if _is_redraw(request):
            return _fragment(_rendered("refused.html", refused=reply.answer))
        return _form(command, values, reply)
    if _is_redraw(request):
        return await _redraw(request, question, values, pins)
    if editing or not values:
        return _form(command, values)
    return await _answer(request, question, values, pins)


def _is_redraw(request: Request) -> bool:
    """Return whether a page asks for the part that changed."""
    headers = request.headers
    return headers.get("hx-request") == "true" and "hx-history-restore-request" not in headers


def _is_slid(request: Request) -> bool:
    """Return whether a slider asks, and not another input of the form."""
    return request.headers.get("hx-trigger") == "sliders"


def _fragment(content: str, **headers: str) -> Response:
    named = {f"HX-{name.replace('_', '-').title()}": text for name, text in headers.items()}
    return Response(content, media_type="text/html", headers={**named, "Vary": "HX-Request"})


async def _system_values(request: Request, system: str) -> dict[str, str]:
    """Return the values of a system of the catalog as text, empty for an unknown one."""
    name = system.partition("{")[0].strip()
    known: dict[str, dict[str, str]] = request.app.state.systems
    if name and name not in known:
        reply = await _look_up(request, catalog_words("systems", name))
        if not reply.is_answer:
            return {}
        rows = reply.answer["results"]["values"]
        known[name] = {path: str(row["value"]) for path, row in rows.items()}
    return known.get(name, {})


async def _without_sliders(request: Request, values: dict[str, str]) -> dict[str, str]:
    """Return values of a form; sliders that were moved are overrides of the system."""
    if not _is_slid(request):
        return {name: text for name, text in values.items() if not name.startswith(PREFIX)}
    return moved(values, await _system_values(request, values.get("system", "")))


def _form(command: str, values: Mapping[str, str], reply: Reply | None = None) -> Response:
    form = form_of(command, values)
    status, refused = (reply.status, reply.answer) if reply else (200, None)
    title = f"perfatlas {command}"
    here = path_of(command)
    return _html("question.html", status, here=here, title=title, form=form, refused=refused)


async def _replied(request: Request, question: Question) -> Reply:
    """Return the reply to a question, kept for the pages that compare with it."""
    answers: dict[tuple[str, ...], tuple[float, Reply]] = request.app.state.answers
    key = (*question.words, str(question.has_page))
    if known := _kept(request, question):
        answers[key] = answers.pop(key)  # the newest is last
        return known
    asking = _workers(request, question.command).ask(question, _drop_progress)
    reply = await _while_there(request, asking)
    if reply.is_answer:
        answers[key] = (time.monotonic(), reply)
        while len(answers) > MAX_KEPT_ANSWERS:
            del answers[next(iter(answers))]
    return reply


def _kept(request: Request, question: Question) -> Reply | None:
    """Return the reply to a question that was asked a short while ago."""
    key = (*question.words, str(question.has_page))
    asked_s, reply = request.app.state.answers.get(key, (-KEPT_S, None))
    return reply if time.monotonic() - asked_s < KEPT_S else None


async def _redraw(
    request: Request, question: Question, values: dict[str, str], pins: list[dict[str, str]]
) -> Response:
    """Answer with the part of a page that a change of its form changes."""
    reply = await _replied(request, question)
    here = path_of(question.command)
    shown = address(here, values, pins)
    if not reply.is_answer:
        return _fragment(_rendered("refused.html", refused=reply.answer), push_url=shown)
    change = await _change(request, question.command, values, reply)
    part = await _part(request, question, values, pins, reply)
    shown_inputs = {one.name: one for one in form_of(question.command, values).shown}
    text = _rendered(
        "redrawn.html",
        change=change,
        sliders=await _sliders(request, values),
        slid=_is_slid(request),
        system=shown_inputs.get("system"),
        path=here,
        **part,
    )
    return _fragment(text, push_url=shown)


async def _change(request: Request, command: str, values: dict[str, str], reply: Reply) -> str:
    """Return what changed since the question of the page that asks, "" if that is not known."""
    query = request.headers.get("hx-current-url", "").partition("?")[2].partition("#")[0]
    before = {name: text for name, text in parse_qsl(query) if name != PIN}
    try:
        question = Question(command_words(command, before), command, has_page=True)
    except PerfatlasError:
        return ""
    known = _kept(request, question)
    if known is None:
        return ""
    catalog = await _system_values(request, values.get("system", ""))
    return change_text((before, known.answer), (values, reply.answer), catalog)


async def _part(
    request: Request,
    question: Question,
    values: dict[str, str],
    pins: list[dict[str, str]],
    reply: Reply,
) -> dict[str, Any]:
    """Return what the answer part of a page has."""
    command, here = question.command, path_of(question.command)
    others = [
        await _replied(request, Question(command_words(command, pin), command)) for pin in pins
    ]
    pinned = [Pinned(pin, one.answer) for pin, one in zip(pins, others, strict=True)]
    tables, remarks = compared([*pinned, Pinned(values, reply.answer)]) if pins else ([], [])
    shown_pins = [
        (name, address(here, pin, []), address(here, values, [*pins[:at], *pins[at + 1 :]]))
        for at, (name, pin) in enumerate(zip(names_of([*pins, values]), pins, strict=False))
    ]
    return {
        "words": ["perfatlas", *map(shlex.quote, question.words)],
        "api": f"/api{here}?{urlencode(values)}",
        "exports": [
            (kind, f"/export/{kind}{here}?{urlencode(values)}")
            for kind in kinds_of(command, reply.answer)
        ],
        "pin": "" if values in pins else address(here, values, [*pins, values]),
        "shown_address": address(here, values, pins),
        "pins": shown_pins,
        "pinned": [urlencode(pin) for pin in pins],
        "tables": tables,
        "remarks": remarks,
        "frontier": f"/frontier?{urlencode([(PIN, urlencode(one)) for one in [*pins, values]])}"
        if command == "estimate"
        else "",
        "body": reply.body,
    }


async def _sliders(request: Request, values: Mapping[str, str]) -> list[Slider]:
    system = values.get("system", "")
    return sliders_of(system, await _system_values(request, system)) if system else []


async def _answer(
    request: Request, question: Question, values: dict[str, str], pins: list[dict[str, str]]
) -> Response:
    """Answer a question at once, or send its page first and the answer when there is one."""
    if question.command not in LONG:
        reply = await _replied(request, question)
        if not reply.is_answer:
            return _form(question.command, values, reply)
        part = await _part(request, question, values, pins, reply)
        sliders = await _sliders(request, values)
        return _html(
            "studio.html", 200, **_head(question, values), sliders=sliders, change="", **part
        )
    jobs: Jobs = request.app.state.jobs
    link = address(path_of(question.command), values, [])
    key, job = jobs.ask(question, link)
    if job.task is None:
        raise HTTPException(503)
    await asyncio.wait({job.task}, timeout=request.app.state.page_after_s)
    top = _asked(question, values)
    if not job.task.done():
        return Response(top + _rendered("job.html", key=key, job=job), media_type="text/html")
    reply = job.task.result()
    if not reply.is_answer:
        return _form(question.command, values, reply)
    return Response(top + _bottom(reply), media_type="text/html")


async def _progress(request: Request, key: str) -> Response:
    """Answer with the progress of a job, the part of a page; its page again when it has ended."""
    job = request.app.state.jobs.get(key)
    if job is None or not job.is_running:
        return _fragment("", refresh="true")
    return _fragment(_rendered("progress.html", job=job))


async def _cancel(request: Request, key: str) -> Response:
    """End a job; answer with its form."""
    if not _is_same_origin(request):
        return _json(OTHER_SITE)
    job = request.app.state.jobs.get(key)
    request.app.state.jobs.cancel(key)
    return RedirectResponse(f"{job.address}&{EDIT_PARAMETER}=yes" if job else "/", 303)


def _head(question: Question, values: Mapping[str, str]) -> dict[str, Any]:
    """Return what the beginning of the page of an answer has."""
    command, here = question.command, path_of(question.command)
    about = ", ".join(values[name] for name in ("model", "system") if name in values)
    return {
        "here": here,
        "title": f"{about or command} - perfatlas {command}",
        "form": form_of(command, values),
    }


def _asked(question: Question, values: Mapping[str, str]) -> str:
    """Return the beginning of the page of a search: the question."""
    return _rendered(
        "asked.html",
        **_head(question, values),
        words=["perfatlas", *map(shlex.quote, question.words)],
        api=f"/api{path_of(question.command)}?{urlencode(values)}",
    )


def _bottom(reply: Reply) -> str:
    """Return the end of the page of a search: the answer."""
    if not reply.is_answer:
        return _rendered("refused.html", refused=reply.answer)
    return _rendered("answer.html", body=reply.body, has_charts=CHART_ATTRIBUTE in reply.body)


async def _frontier(request: Request) -> Response:
    """Answer with the frontiers of pinned questions in one chart, the part of a page."""
    command, here = "estimate", path_of("estimate")
    found, missing = [], []
    try:
        for pin in read_pins(request.query_params.getlist(PIN)):
            words = command_words(command, frontier_values(pin))
            reply = await _replied(request, Question(words, command))
            if reply.is_answer:
                found.append((pin, reply.answer["results"]["frontier"]))
            else:
                missing.append(str(reply.answer["error"]))
    except PerfatlasError as problem:
        missing.append(str(problem))
    chart = frontier_chart(found, here) if found else None
    return _html("frontier.html", 200, chart=chart, missing=missing)


async def _export(request: Request, kind: str, name: str) -> Response:
    """Answer with a question as a file."""
    command = name.replace("/", " ")
    if kind not in MEDIA or command not in FORMS:
        raise HTTPException(404)
    try:
        question = Question(command_words(command, _values(request)), command)
    except PerfatlasError as problem:
        return _json(Reply.refused(problem.error_code, str(problem)))
    reply = await _replied(request, question)
    if not reply.is_answer:
        return _json(reply)
    if kind not in kinds_of(command, reply.answer):
        raise HTTPException(404)
    headers = {"Content-Disposition": f'attachment; filename="{command.replace(" ", "_")}.{kind}"'}
    return Response(exported(kind, reply.answer), media_type=MEDIA[kind], headers=headers)


async def _home(request: Request) -> Response:
    return _html("home.html", 200, here="/", title="perfatlas", **_home_content(request))


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
        "cards": CARDS, "saved": saved, "problem": problem, "verbs": verbs, "catalogs": CATALOGS
    }  # fmt: skip


async def _picture(request: Request, name: str) -> Response:
    """Answer with a chart of a question, the part of a page."""
    command = name.replace("/", " ")
    if command not in FORMS:
        raise HTTPException(404)
    try:
        values = _set_once(request.query_params.multi_items())
        title = values.pop(CHART_PARAMETER, "")
        words = command_words(command, values)
    except PerfatlasError:
        raise HTTPException(404) from None
    reply = await _replied(request, Question(words, command, has_page=True))
    body = reply.body.partition(f'<figure aria-label="{escape(title)}')
    figure = f"{body[1]}{body[2]}".removeprefix("<figure").partition("<details")[0]
    return Response(f"<figure{figure}</figure>" if figure else "", media_type="text/html")


def _is_same_origin(request: Request) -> bool:
    """Return whether a page of this server asks, or a client that is no browser."""
    headers = request.headers
    if site := headers.get("sec-fetch-site"):
        return site == "same-origin"
    origin = headers.get("origin")  # alone where the server is no secure context
    return origin is None or origin.partition("://")[2] == headers.get("host")


async def _save(request: Request) -> Response:
    """Keep a question under a name, or forget it; answer with its page."""
    if not _is_same_origin(request):
        return _json(OTHER_SITE)
    try:
        body = await _body(request)
    except TimeoutError:
        return _json(TOO_SLOW)
    try:
        values = _set_once(parse_qsl(body.decode(errors="replace"), keep_blank_values=True))
        link = values.get("address", "")
        is_question = link.partition("?")[0] in {path_of(command) for command in FORMS}
        if link and not is_question:
            raise UsageError(f"{repr_for_error(link)} is no question of this server")
        save_question(values.get("name", ""), link or None)
    except PerfatlasError as problem:
        content = _home_content(request, str(problem))
        return _html("home.html", 400, here="/", title="perfatlas", **content)
    return RedirectResponse(link or "/", 303)


async def _static(name: str) -> Response:
    if name not in STATIC_FILES:
        raise HTTPException(404)
    content, media_type, is_packed = _static_file(name)
    headers = {"Cache-Control": "max-age=3600"}
    if is_packed:
        headers["Content-Encoding"] = "gzip"
    return Response(content, media_type=media_type, headers=headers)


@cache
def _static_file(name: str) -> tuple[bytes, str, bool]:
    package, path, media_type = STATIC_FILES[name]
    content = resources.files(package).joinpath(path).read_bytes()
    return content, media_type, path.endswith(".gz")


async def _catalog(request: Request, kind: str, name: str = "") -> Response:
    """Show a catalog, or an entry of one."""
    try:
        words = catalog_words(kind, name)
        reply = await _look_up(request, words)
    except PerfatlasError as problem:
        words, reply = ["catalog"], Reply.refused(problem.error_code, str(problem), status=404)
    results = reply.answer.get("results", {})
    tables = [] if not reply.is_answer else entry(kind, results) if name else listed(kind, results)
    return _html(
        "catalog.html",
        reply.status,
        here=f"/catalog/{kind}",
        title=f"{name or kind} - perfatlas catalog",
        heading=name or kind.capitalize(),
        line=shlex.join(["perfatlas", *words]),
        tables=tables,
        catalogs=CATALOGS,
        refused=None if reply.is_answer else reply.answer,
    )


async def _look_up(request: Request, words: list[str]) -> Reply:
    asking = request.app.state.short.ask(Question(words, "catalog"), _drop_progress)
    return await _while_there(request, asking)


async def _catalog_answer(request: Request, kind: str, name: str = "") -> Response:
    try:
        reply = await _look_up(request, catalog_words(kind, name))
    except PerfatlasError as problem:
        reply = Reply.refused(problem.error_code, str(problem), status=404)
    return _json(reply)


def _html(template: str, status: int, **content: object) -> Response:
    return Response(_rendered(template, **content), status, media_type="text/html")


def _rendered(template: str, **content: object) -> str:
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    import jinja2

    from perfatlas.report.text import typeset

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("perfatlas.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    links = [(path_of(name), name.partition(" ")[0]) for name in COMMANDS_IN_HEADER]
    environment.globals["links"] = [*links, ("/catalog/systems", "catalog")]
    environment.filters["typeset"] = typeset
    return environment
