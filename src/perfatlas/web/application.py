"""The application: forms, answers, catalogs and the REST API."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import socket
from functools import cache
from importlib import resources
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException

from perfatlas.declarations import commands
from perfatlas.quantities import PerfatlasError, UsageError, repr_for_error
from perfatlas.version import __version__
from perfatlas.vocabulary.fields import json_schema
from perfatlas.web.answers import Reply
from perfatlas.web.asking import (
    LONG,
    MAX_REQUEST_BYTES,
    OTHER_SITE,
    TOO_SLOW,
    drop_progress,
    is_same_origin,
    json_reply,
    kept_reply,
    look_up,
    replied,
    request_body,
    set_once,
    too_large,
    while_there,
    workers_of,
)
from perfatlas.web.catalogs import CATALOGS, catalog_words, entry, listed
from perfatlas.web.changes import change_text
from perfatlas.web.collected import report_address, report_page, runs_page, upload, words_of
from perfatlas.web.exports import CHART
from perfatlas.web.file_forms import SWEEP, SWEPT
from perfatlas.web.first_page import (
    exported_file,
    exports_of,
    frontier_part,
    home_page,
    picture,
    saved_question,
)
from perfatlas.web.forms import form_of, path_of
from perfatlas.web.jobs import Jobs
from perfatlas.web.pins import (
    MAX_PINS,
    PIN,
    Pinned,
    address,
    compared,
    launch_address,
    names_of,
    read_pins,
)
from perfatlas.web.questions import (
    FORMS,
    SWITCHES,
    command_words,
    form_fields,
    typical_fields,
)
from perfatlas.web.rendering import fragment, html_page, rendered
from perfatlas.web.sliders import PREFIX, Slider, moved, sliders_of
from perfatlas.web.uploads import MAX_FILE_BYTES, Uploads, without_references
from perfatlas.web.workers import SEARCH_NICENESS, Question, Settings, Workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

EDIT_PARAMETER: Final = "edit"  # parameter that shows a form with its values instead of the answer
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


def web_application(settings: Settings) -> FastAPI:
    """Return the application; its processes start and end with it.

    Args:
        settings: Limits of questions.
    """

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.uploads = uploads = Uploads()
        app.state.short = Workers(settings.workers, settings.short_limit_s, uploads)
        app.state.page_after_s = settings.page_after_s
        app.state.answers, app.state.systems = {}, {}
        app.state.long = Workers(
            max(1, settings.workers - 1), settings.limit_s, uploads, SEARCH_NICENESS
        )
        app.state.jobs = Jobs(app.state.long)
        cleaning = asyncio.ensure_future(uploads.clean())
        try:
            yield
        finally:
            app.state.jobs.close()
            app.state.short.close()
            app.state.long.close()
            cleaning.cancel()
            uploads.close()

    app = FastAPI(
        title="perfatlas", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.add_middleware(_Guarded, host=settings.host)
    app.add_exception_handler(HTTPException, _http_error)
    for command in FORMS:
        _add_command(app, command)
    app.add_api_route("/", home_page, include_in_schema=False)
    app.add_api_route("/picture/{name:path}", picture, include_in_schema=False)
    app.add_api_route("/progress/{key}", _progress, include_in_schema=False)
    app.add_api_route("/cancel/{key}", _cancel, methods=["POST"], include_in_schema=False)
    app.add_api_route("/saved", saved_question, methods=["POST"], include_in_schema=False)
    app.add_api_route("/uploads/{name}", upload, methods=["POST"], include_in_schema=False)
    app.add_api_route("/runs", runs_page, include_in_schema=False)
    app.add_api_route("/report", report_page, include_in_schema=False)
    app.add_api_route("/frontier", frontier_part, include_in_schema=False)
    app.add_api_route("/export/{kind}/{name:path}", exported_file, include_in_schema=False)
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
            size = int(length) if length.isdecimal() else MAX_FILE_BYTES + 1
            if self._is_local and not _is_loopback(name := _host_name(host)) and name != self._host:
                text = f"the request is for the host {repr_for_error(host)}"
                text += ", and this server is localhost or an address of it"
                answer = json_reply(Reply.refused("usage", text))
            elif headers.get("sec-fetch-site") == "cross-site" and not (
                scope["method"] == "GET"
                and headers.get("sec-fetch-mode") == "navigate"
                and headers.get("sec-fetch-dest") == "document"
            ):
                answer = json_reply(OTHER_SITE)
            elif size > (most := _most_bytes(scope["path"])):
                answer = json_reply(too_large(most))
            elif len(scope["query_string"]) > MAX_REQUEST_BYTES:
                answer = json_reply(too_large())
            if scope["method"] == "HEAD":  # that of GET; the server drops its body
                scope = {**scope, "method": "GET"}
        await answer(scope, receive, guarded)


def _most_bytes(path: str) -> int:
    """Return how many bytes a request may have."""
    return MAX_FILE_BYTES if path.startswith("/uploads/") else MAX_REQUEST_BYTES


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


async def _http_error(request: Request, problem: Exception) -> Response:
    """Answer a request that is no question."""
    status = getattr(problem, "status_code", 404)
    missing = f"there is no page {repr_for_error(request.url.path)}"
    texts = {404: missing, 405: "method not allowed"}
    reply = Reply.refused("usage", texts.get(status, "the request is invalid"), status=status)
    reply = too_large() if status == 413 else reply
    headers = getattr(problem, "headers", None)
    if request.url.path.startswith("/api"):
        return JSONResponse(reply.answer, status, headers)
    return html_page(
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
    return set_once(request.query_params.multi_items())


async def _posted(request: Request) -> dict[str, str]:
    """Return the values of a JSON object by field, as text."""
    body = await request_body(request)
    try:
        values = json.loads(body, parse_constant=_no_constant, object_pairs_hook=set_once)
    except (ValueError, RecursionError) as problem:
        raise UsageError("the body is not a JSON object") from problem
    if not isinstance(values, dict):
        raise UsageError("the body is not a JSON object")
    return {name: _text(name, value) for name, value in values.items() if value is not None}


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
        question = Question(await words_of(request, command, values), command)
    except PerfatlasError as problem:
        reply = Reply.refused(problem.error_code, str(problem))
    except TimeoutError:
        reply = TOO_SLOW
    else:
        reply = await while_there(
            request, workers_of(request, command).ask(question, drop_progress)
        )
    return json_reply(reply)


async def _page(request: Request, command: str) -> Response:
    """Answer with a form, with the answer to it, or with the part of a page that changed."""
    values: dict[str, str] = {}
    here = path_of(command)
    try:
        pins = read_pins(request.query_params.getlist(PIN))
        pairs = [pair for pair in request.query_params.multi_items() if pair[0] != PIN]
        values = set_once(pairs)
        editing = values.pop(EDIT_PARAMETER, "") != ""
        values = await _without_sliders(request, values)
        kept = {name: value for name, value in values.items() if value.strip()}
        if len(kept) < len(pairs) and not (editing or _is_redraw(request)):
            return RedirectResponse(address(here, kept, pins) if kept else here, 303)
        values = kept if not editing else values
        words = [] if editing else await words_of(request, command, values)
        question = Question(words, command, has_page=True)
        for pin in pins:
            command_words(command, pin)
    except PerfatlasError as problem:
        reply = Reply.refused(problem.error_code, str(problem))
        if _is_redraw(request):
            return fragment(rendered("refused.html", refused=reply.answer))
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


async def _system_values(request: Request, system: str) -> dict[str, str]:
    """Return the values of a system of the catalog as text, empty for an unknown one."""
    name = system.partition("{")[0].strip()
    known: dict[str, dict[str, str]] = request.app.state.systems
    if name and name not in known:
        reply = await look_up(request, catalog_words("systems", name))
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
    return html_page("question.html", status, here=here, title=title, form=form, refused=refused)


async def _redraw(
    request: Request, question: Question, values: dict[str, str], pins: list[dict[str, str]]
) -> Response:
    """Answer with the part of a page that a change of its form changes."""
    reply = await replied(request, question)
    here = path_of(question.command)
    shown = address(here, values, pins)
    if not reply.is_answer:
        return fragment(rendered("refused.html", refused=reply.answer), push_url=shown)
    change = await _change(request, question.command, values, reply)
    part = await _part(request, question, values, pins, reply)
    shown_inputs = {one.name: one for one in form_of(question.command, values).shown}
    text = rendered(
        "redrawn.html",
        change=change,
        sliders=await _sliders(request, values),
        slid=_is_slid(request),
        system=shown_inputs.get("system"),
        path=here,
        **part,
    )
    return fragment(text, push_url=shown)


async def _change(request: Request, command: str, values: dict[str, str], reply: Reply) -> str:
    """Return what changed since the question of the page that asks, "" if that is not known."""
    query = request.headers.get("hx-current-url", "").partition("?")[2].partition("#")[0]
    before = {name: text for name, text in parse_qsl(query) if name != PIN}
    try:
        question = Question(command_words(command, before), command, has_page=True)
    except PerfatlasError:
        return ""
    known = kept_reply(request, question)
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
        await replied(request, Question(command_words(command, pin), command)) for pin in pins
    ]
    pinned = [Pinned(pin, one.answer) for pin, one in zip(pins, others, strict=True)]
    pinned = [one for one in pinned if one.values != values]
    shown = [*(one.values for one in pinned), values]
    tables, remarks = compared([*pinned, Pinned(values, reply.answer)]) if pinned else ([], [])
    shown_pins = [
        (name, address(here, pin, []), address(here, values, [*pins[:at], *pins[at + 1 :]]))
        for at, (name, pin) in enumerate(zip(names_of([*pins, values]), pins, strict=False))
    ]
    return {
        "words": _shown(question.words),
        "api": f"/api{here}?{urlencode(values)}",
        "exports": exports_of(command, values, reply),
        "vary": address(
            path_of(SWEEP),
            {EDIT_PARAMETER: "yes", "verb": command, "question": urlencode(values)},
            [],
        )
        if command in SWEPT
        else "",
        "launch": launch_address(values, reply.answer) if command == "estimate" else "",
        "report": report_address(command, shown),
        "pin": ""
        if values in pins or len(pins) == MAX_PINS
        else address(here, values, [*pins, values]),
        "shown_address": address(here, values, pins),
        "pins": shown_pins,
        "pinned": [urlencode(pin) for pin in pins],
        "tables": tables,
        "remarks": remarks,
        "frontier": f"/frontier?{urlencode([(PIN, urlencode(one)) for one in shown])}"
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
        reply = await replied(request, question)
        if not reply.is_answer:
            return _form(question.command, values, reply)
        part = await _part(request, question, values, pins, reply)
        sliders = await _sliders(request, values)
        return html_page(
            "studio.html", 200, **_head(question, values), sliders=sliders, change="", **part
        )
    jobs: Jobs = request.app.state.jobs
    link = address(path_of(question.command), values, [])
    key, job = jobs.ask(question, link)
    await asyncio.wait({job.task}, timeout=request.app.state.page_after_s)
    if not job.task.done():
        top = _asked(question, values, [])
        return Response(top + rendered("job.html", key=key, job=job), media_type="text/html")
    reply = job.task.result()
    if not reply.is_answer:
        return _form(question.command, values, reply)
    text = _asked(question, values, exports_of(question.command, values, reply))
    text += rendered("answer.html", body=reply.body, has_charts=CHART in reply.body)
    return Response(text, media_type="text/html")


async def _progress(request: Request, key: str) -> Response:
    """Answer with the progress of a job, the part of a page; its page again when it has ended."""
    job = request.app.state.jobs.get(key)
    if job is None or not job.is_running:
        return fragment("", refresh="true")
    return fragment(rendered("progress.html", job=job))


async def _cancel(request: Request, key: str) -> Response:
    """End a job; answer with its form."""
    if not is_same_origin(request):
        return json_reply(OTHER_SITE)
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


def _shown(words: Sequence[str]) -> list[str]:
    """Return a command line as its owner types it."""
    return ["perfatlas", *(shlex.quote(without_references(word)) for word in words)]


def _asked(
    question: Question, values: Mapping[str, str], exports: Sequence[tuple[str, str]]
) -> str:
    """Return the beginning of the page of a long question: the question, and what to do with it."""
    here = path_of(question.command)
    return rendered(
        "asked.html",
        **_head(question, values),
        words=_shown(question.words),
        api=f"/api{here}?{urlencode(values)}",
        report=report_address(question.command, [values]),
        exports=exports,
        shown_address=address(here, values, []),
    )


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
        reply = await look_up(request, words)
    except PerfatlasError as problem:
        words, reply = ["catalog"], Reply.refused(problem.error_code, str(problem), status=404)
    results = reply.answer.get("results", {})
    tables = [] if not reply.is_answer else entry(kind, results) if name else listed(kind, results)
    return html_page(
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


async def _catalog_answer(request: Request, kind: str, name: str = "") -> Response:
    try:
        reply = await look_up(request, catalog_words(kind, name))
    except PerfatlasError as problem:
        reply = Reply.refused(problem.error_code, str(problem), status=404)
    return json_reply(reply)
