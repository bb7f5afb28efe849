"""Pages and the API of `perfatlas web`, answered by worker processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import shutil
import tempfile
from functools import partial
from html import unescape
from multiprocessing import active_children
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")

from collections.abc import Iterator

from starlette.testclient import TestClient

from perfatlas.cli import main
from perfatlas.quantities import InvalidSpecError
from perfatlas.web import FORMS, Settings, web_application
from perfatlas.web.questions import command_words, typical_fields
from perfatlas.web.workers import Question, Workers

ESTIMATE: Final = {"model": "openai/gpt-oss-20b", "system": "h200_sxm", "batch": "8"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = web_application(Settings(workers=1, page_after_s=60.0))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as found:
        yield found


def _path(command: str) -> str:
    return f"/{command.replace(' ', '/')}"


@pytest.mark.parametrize(
    "command", [name for name in FORMS if typical_fields(name) and name != "sweep"]
)
def test_every_form_answers_its_example(
    command: str, client: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    values = typical_fields(command)
    form = client.get(_path(command))
    assert form.status_code == 200
    names = re.findall(r'\sid="([^"]+)"', form.text)
    assert len(names) == len(set(names))
    for name in values:
        assert f'<label for="{name}">' in form.text
    page = client.get(_path(command), params=values)
    assert page.status_code == 200
    assert '<section id="reproduce">' in page.text
    answer = client.get(f"/api{_path(command)}", params=values).json()
    assert main([*command_words(command, values), "--json"]) == 0
    assert answer == json.loads(capsys.readouterr().out)


def test_a_posted_question_has_the_answer_of_its_address(client: TestClient) -> None:
    posted = client.post("/api/estimate", json=ESTIMATE).json()
    assert posted == client.get("/api/estimate", params=ESTIMATE).json()


def test_the_page_is_that_of_html(
    client: TestClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.html"
    flags = [f"--{name}={value}" for name, value in ESTIMATE.items()]
    assert main(["estimate", *flags, f"--html={path}", "--html-script=none"]) == 0
    assert capsys.readouterr().out
    written = path.read_text("utf-8").partition("<body>")[2].partition("<script>")[0]
    assert written.strip() in client.get("/estimate", params=ESTIMATE).text


def test_an_address_reproduces_its_question(client: TestClient) -> None:
    page = client.get("/estimate", params=ESTIMATE).text
    for name, value in ESTIMATE.items():
        assert re.search(rf'name="{name}" value="{re.escape(value)}"', page)
    (link,) = re.findall(r'href="(/api/estimate[^"]+)"', page)
    answer = client.get(unescape(link)).json()
    assert answer["scenario"]["batch"] == 8


def test_empty_inputs_leave_the_address(client: TestClient) -> None:
    found = client.get("/estimate", params={**ESTIMATE, "tp": "", "kv_format": ""})
    assert found.status_code == 303
    assert found.headers["location"].endswith("batch=8")


def test_errors_are_those_of_the_library(client: TestClient) -> None:
    unknown = client.get("/api/estimate", params={**ESTIMATE, "system": "h2000"})
    assert unknown.status_code == 400
    assert unknown.json()["error_code"] == "invalid"
    assert "did you mean 'h200_sxm'" in unknown.json()["error"]
    large = client.get("/api/estimate", params={**ESTIMATE, "batch": "8000000"})
    assert large.status_code == 422
    assert large.json()["error_code"] == "infeasible"
    assert large.json()["advice"][0].startswith("batch = ")
    missing = client.get("/api/estimate", params={"batch": "8"})
    assert missing.json()["error_code"] == "usage"
    page = client.get("/estimate", params={**ESTIMATE, "batch": "8000000"})
    assert page.status_code == 422
    assert 'role="alert"' in page.text
    assert 'value="8000000"' in page.text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"[1]", 400),
        (b'{"model": {"a": 1}}', 400),
        (b'{"batch": NaN}', 400),
        (b'{"batch": ' + b"9" * 5000 + b"}", 400),
        (b'{"batch": 1e400}', 400),
        (b"[" * 5000, 400),
        (b"\xff\xfe", 400),
        (b'{"batch": 1, "batch": 2}', 400),
        (b'{"": 1}', 400),
        (b'"' + b"x" * 70_000 + b'"', 413),
    ],
)
def test_hostile_bodies_are_refused(body: bytes, status: int, client: TestClient) -> None:
    found = client.post("/api/estimate", content=body)
    assert found.status_code == status
    assert set(found.json()) >= {"error_code", "error", "advice"}


def test_values_are_escaped(client: TestClient) -> None:
    hostile = "<script>alert(1)</script>\"'"
    for page in (
        client.get("/estimate", params={"model": hostile}),
        client.get("/estimate", params={hostile: "x"}),
        client.get(f"/catalog/models/{hostile}"),
        client.get(f"/{hostile}"),
    ):
        assert page.status_code in (400, 404)
        assert "<script>alert" not in page.text


def test_pages_have_security_headers(client: TestClient) -> None:
    for path in ("/", "/estimate", "/api/estimate", "/static/plotly.js", "/none"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self';" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    page = client.get("/estimate", params=ESTIMATE).text
    inline = re.findall(r"<script(?![^>]*(?:src=|application/json))[^>]*>", page)
    assert inline == []
    assert not re.search(r'\son\w+="', page)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)


@pytest.mark.parametrize("path", ["/", "/estimate", "/api/catalog/rates", "/static/web.css"])
def test_head_has_the_headers_of_get(path: str, client: TestClient) -> None:
    got, head = client.get(path), client.head(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "content-length", "content-security-policy"):
        assert head.headers[name] == got.headers[name]


def test_other_hosts_and_methods_are_refused(client: TestClient) -> None:
    other = client.get("/", headers={"host": "example.com"})
    assert other.status_code == 400
    assert other.json()["error"].startswith("the request is for the host 'example.com'")
    assert set(other.json()) == {"error_code", "error", "advice"}
    for method in ("PUT", "DELETE", "PATCH"):
        found = client.request(method, "/api/estimate")
        assert found.status_code == 405
        assert "GET" in found.headers["allow"]
    for twice in (
        client.get("/api/estimate?batch=1&batch=2"),
        client.post("/api/estimate", content=b'{"batch": 1, "batch": 2}'),
    ):
        assert twice.json()["error"] == "'batch' is set twice"
    for large in (
        client.get("/api/estimate?model=" + "x" * 40_000),
        client.post("/api/estimate", content=iter([b"x" * 40_000])),
    ):
        assert large.status_code == 413
        assert large.json()["error"].startswith("the request has more than 32,768 bytes")
    assert client.get("/static/..%2Fserver.py").status_code == 404


@pytest.mark.parametrize(
    ("mode", "dest", "path", "status"),
    [
        ("navigate", "document", "/estimate", 200),
        ("navigate", "iframe", "/estimate", 403),
        ("no-cors", "image", "/api/catalog/rates", 403),
        ("cors", "empty", "/api/catalog/rates", 403),
    ],
)
def test_other_sites_may_only_link(
    mode: str, dest: str, path: str, status: int, client: TestClient
) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    assert client.get(path, headers=headers).status_code == status
    assert client.post(path, headers=headers).status_code == 403
    own = client.get(path, headers=headers | {"Sec-Fetch-Site": "same-origin"})
    assert own.status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost", "::"])
def test_loopback_addresses_answer_to_no_other_name(host: str) -> None:
    app = web_application(Settings(host=host, workers=1))
    client = TestClient(app)
    status = {
        name: client.get("/static/page.css", headers={"host": name}).status_code
        for name in ("example.com", "localhost:80", "127.0.0.2", "[::1]:80", "[::1", "")
    }
    others = 200 if host == "::" else 400
    assert set(status.values()) - {others} <= {200}
    assert (status["example.com"], status["[::1"], status[""]) == (others,) * 3
    assert (status["localhost:80"], status["127.0.0.2"], status["[::1]:80"]) == (200,) * 3


@pytest.mark.parametrize("kind", ["systems", "models", "engines", "formats", "rates", "durations"])
def test_catalogs_show_every_entry_with_its_sources(kind: str, client: TestClient) -> None:
    names = client.get(f"/api/catalog/{kind}").json()["results"][kind]
    page = client.get(f"/catalog/{kind}")
    assert page.status_code == 200
    name = names[0]["profile" if kind == "engines" else "name"]
    link = f'href="/catalog/{kind}/{quote(name)}"'
    assert link in unescape(page.text)
    shown = client.get(f"/catalog/{kind}/{name}")
    assert shown.status_code == 200
    assert name in unescape(shown.text)
    assert client.get(f"/catalog/{kind}/..%2Fx.toml").status_code == 404


def test_openapi_lists_the_fields_of_every_form(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for command in FORMS:
        entry = paths[f"/api{_path(command)}"]
        names = {row["name"] for row in entry["get"]["parameters"]}
        schema = entry["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert names == set(schema["properties"])
        assert names >= set(typical_fields(command))


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_cancelled_question_ends_its_process_and_deletes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = partial(tempfile.TemporaryDirectory, dir=tmp_path)
    monkeypatch.setattr(tempfile, "TemporaryDirectory", here)
    model, system = "--model=meta-llama/Llama-3.1-405B", "--system=h100_sxm"
    search = ["search", model, system, "--max-gpus=1024"]

    async def ask_and_cancel() -> None:
        before = set(active_children())
        workers = Workers(1, limit_s=300.0)
        try:
            question = Question(search, "search", has_page=True)
            (folder,) = _names(tmp_path)
            task = asyncio.ensure_future(workers.ask(question, lambda _: None))
            await asyncio.sleep(3.0)
            assert not task.done()
            started = set(active_children()) - before
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            gemm = ["kernel", "gemm", system, "--m=64", "--n=64", "--k=64"]
            reply = await workers.ask(Question(gemm, "kernel gemm"), lambda _: None)
            assert reply.is_answer
            assert started
            assert not started & set(active_children())
            assert folder not in _names(tmp_path)
        finally:
            workers.close()

    asyncio.run(ask_and_cancel())
    assert _names(tmp_path) == []


def test_a_question_has_a_time_limit_and_a_queue_an_end() -> None:
    async def ask() -> None:
        workers = Workers(1, limit_s=0.001)
        try:
            question = Question(["catalog", "models"], "catalog")
            reply = await workers.ask(question, lambda _: None)
            assert (reply.status, reply.answer["error_code"]) == (504, "time_limit")
            asked = [asyncio.ensure_future(workers.ask(question, print)) for _ in range(80)]
            await asyncio.sleep(0)
            codes = {task.result().status for task in asked if task.done()}
            assert codes == {503}
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        finally:
            workers.close()

    asyncio.run(ask())


GEMM: Final = Question(
    ["kernel", "gemm", "--system=h100_sxm", "--m=64", "--n=64", "--k=64"],
    "kernel gemm",
    has_page=True,
)


def test_a_question_is_asked_again_if_its_process_is_killed() -> None:
    async def ask() -> None:
        before = set(active_children())
        workers = Workers(1, limit_s=60.0)
        try:
            for _ in range(2):
                (child,) = set(active_children()) - before
                child.kill()
                child.join()
                reply = await workers.ask(GEMM, lambda _: None)
                assert reply.is_answer
                assert "<header>" in reply.body
        finally:
            workers.close()

    asyncio.run(ask())


def test_a_slot_is_free_again_if_its_process_cannot_be_replaced() -> None:
    search = ["search", "--model=meta-llama/Llama-3.1-405B", "--system=h100_sxm"]
    question = Question([*search, "--max-gpus=1024"], "search")

    async def ask() -> None:
        workers = Workers(1, limit_s=2.0)
        try:
            asked = asyncio.ensure_future(workers.ask(question, lambda _: None))
            await asyncio.sleep(1.0)
            with _no_more_files():
                assert (await asked).answer["error_code"] == "time_limit"
                for _ in range(3):
                    reply = await workers.ask(GEMM, lambda _: None)
                    assert (reply.status, reply.answer["error_code"]) == (503, "busy")
            workers._limit_s = 60.0
            assert (await workers.ask(GEMM, lambda _: None)).is_answer
        finally:
            workers.close()

    asyncio.run(ask())


@contextlib.contextmanager
def _no_more_files() -> Iterator[None]:
    """Open files until the system has no more for this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.ExitStack() as opened:
        opened.callback(resource.setrlimit, resource.RLIMIT_NOFILE, limits)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, limits[0]), limits[1]))
        with contextlib.suppress(OSError):
            while True:
                opened.enter_context(Path(os.devnull).open())
        yield


def test_a_page_is_written_after_the_temporary_folder_was_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def ask() -> None:
        workers = Workers(1, limit_s=60.0)
        try:
            cleaned = os.listdir(tmp_path)  # noqa: PTH208
            shutil.rmtree(tmp_path)
            for name in ("", *cleaned):  # multiprocessing deletes its own at the end
                os.makedirs(tmp_path / name, exist_ok=True)  # noqa: PTH103
            shutil.rmtree(Path(next(p for p in workers._idle if p).folder.name))
            assert (await workers.ask(GEMM, lambda _: None)).body
        finally:
            workers.close()

    asyncio.run(ask())


def test_more_processes_than_the_machine_can_use_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="--workers 1000000000: "):
        Settings(workers=1_000_000_000)
