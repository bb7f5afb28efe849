"""Files of clients: what is kept, how it is named, and when it is deleted."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode

import pytest

pytest.importorskip("fastapi")

from starlette.testclient import TestClient

from perfatlas.quantities import InvalidSpecError, UsageError
from perfatlas.web import Settings, web_application
from perfatlas.web.sweep_form import study_toml
from perfatlas.web.uploads import KEPT_S, MAX_FILE_BYTES, Uploads, located, without_references

EXAMPLES: Final = Path(__file__).parents[2] / "examples"
KEY: Final = "upload:0123456789abcdef0123456789abcdef"
SWEEP: Final = {
    "verb": "estimate",
    "question": "model=openai/gpt-oss-20b&system=h200_sxm",
    "vary": "batch",
    "values": "1, 8, 64",
}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    home = os.environ.get("PERFATLAS_HOME")
    os.environ["PERFATLAS_HOME"] = str(tmp_path_factory.mktemp("home"))  # workers inherit it
    app = web_application(Settings(workers=1, page_after_s=60.0))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as found:
        yield found
    del os.environ["PERFATLAS_HOME"]
    if home is not None:
        os.environ["PERFATLAS_HOME"] = home


@pytest.fixture
def uploads() -> Iterator[Uploads]:
    found = Uploads()
    yield found
    found.close()


def _send(client: TestClient, path: str) -> str:
    file = EXAMPLES / path
    reply = client.post(f"/uploads/{file.name}", content=file.read_bytes())
    return str(reply.json()["file"])


@pytest.mark.parametrize(
    ("page", "field", "path", "others", "shown"),
    [
        ("/profile", "files", "profiles/h100_two_layers.json.gz", {}, "Time by class"),
        ("/estimate", "model", "quick_start/config.json", {"system": "h200_sxm"}, "Roofline"),
        ("/estimate", "system", "quick_start/chip.toml", {"model": "gpt-oss-20b"}, "Roofline"),
        ("/validate/serving", "results", "vllm_run.json", {"system": "h200_sxm"}, "TPOT of each"),
        (
            "/fleet/report",
            "subject",
            "logs/kern.log",
            {"format": "xid", "year": "2026", "zone": "UTC"},
            "Machines with the most failures",
        ),
    ],
)
def test_a_file_has_its_page(
    page: str, field: str, path: str, others: dict[str, str], shown: str, client: TestClient
) -> None:
    reply = client.get(page, params={field: _send(client, path), **others})
    assert reply.status_code == 200
    assert shown in reply.text
    assert Path(path).name in reply.text
    assert "perfatlas-uploads" not in reply.text
    assert "perfatlas-web" not in reply.text


def test_an_answer_in_json_does_not_name_the_folder(client: TestClient) -> None:
    sent = _send(client, "quick_start/chip.toml")
    values = {"model": "openai/gpt-oss-20b", "system": f"{sent}{{device.tdp=500W}}"}
    answer = client.get("/api/estimate", params=values)
    assert answer.json()["scenario"]["system"] == "chip.toml{device.tdp=500W}"
    assert "perfatlas-uploads" not in answer.text
    values["system"] = f"{sent}{{device.tdp=-1W}}"
    refused = client.get("/api/estimate", params=values)
    assert refused.status_code == 400
    assert "perfatlas-uploads" not in refused.text


def test_a_file_that_is_gone_is_asked_for_again(client: TestClient) -> None:
    reply = client.get("/api/profile", params={"files": f"{KEY}/x.json"})
    assert reply.status_code == 400
    assert "choose the file again" in reply.json()["error"]


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("/api/sweep", {"study": "/etc/passwd"}),
        ("/api/sweep", {"study": "secret.toml"}),
        ("/api/fleet/plan", {"study": "/etc/passwd"}),
        ("/api/fleet/report", {"subject": "llama3", "zone": "/etc/passwd"}),
        ("/api/fleet/report", {"subject": "llama3", "format": "/etc/passwd"}),
    ],
)
def test_a_choice_is_one_of_its_list(path: str, values: dict[str, str], client: TestClient) -> None:
    reply = client.get(path, params=values)
    assert reply.status_code == 400
    assert "is none of" in reply.json()["error"]


def test_a_sweep_of_several_blocks_runs_in_its_process(client: TestClient) -> None:
    values = {**SWEEP, "values": "1 to 600 in 600 steps"}
    reply = client.get("/api/sweep", params=values)
    assert reply.json()["results"]["points"] == 600


def test_a_chip_of_its_own_is_varied(client: TestClient) -> None:
    sent = _send(client, "quick_start/chip.toml")
    values = {**SWEEP, "question": f"model=openai/gpt-oss-20b&system={sent}"}
    page = client.get("/sweep", params=values)
    assert "by batch" in page.text
    assert "perfatlas-uploads" not in page.text
    study = client.get("/export/toml/sweep", params=values)
    assert 'system = "chip.toml"' in study.text


def test_two_names_of_equal_contents_end_alone(uploads: Uploads) -> None:
    old, new = (uploads.keep(name, b"{}").removeprefix("upload:") for name in ("a", "b"))
    os.utime(uploads.path / old, (0.0, time.time() - KEPT_S - 1.0))
    assert uploads.delete_old() == 2
    assert (uploads.path / new).exists()
    assert not (uploads.path / old).exists()


@pytest.mark.parametrize("name", ["..", ".x", "a b", "x" * 81, "ä.json", "-x"])
def test_names_are_plain(name: str, uploads: Uploads) -> None:
    with pytest.raises(InvalidSpecError, match="file name"):
        uploads.keep(name, b"x")


def test_what_is_too_large_or_from_elsewhere_is_refused(client: TestClient) -> None:
    reply = client.post("/uploads/x", headers={"content-length": str(MAX_FILE_BYTES + 1)})
    assert reply.status_code == 413
    assert f"{MAX_FILE_BYTES:,} bytes" in reply.json()["error"]
    reply = client.post("/uploads/x", content=b"x", headers={"sec-fetch-site": "same-site"})
    assert reply.status_code == 403
    assert client.get("/uploads/x").status_code == 405


def test_equal_files_are_kept_once_and_old_ones_deleted(uploads: Uploads) -> None:
    first = uploads.keep("a.json", b"{}")
    assert uploads.keep("a.json", b"{}") == first
    assert uploads.keep("a.json", b"[]") != first
    assert uploads.missing(["estimate", f"--model={first}"]) == ""
    old = uploads.path / first.removeprefix("upload:")
    os.utime(old, (0.0, time.time() - KEPT_S - 1.0))
    uploads.keep("b.json", b"{}x")
    assert not old.exists()
    assert "choose the file again" in uploads.missing(["estimate", f"--model={first}"])


@pytest.mark.parametrize(
    "text", ["/etc/passwd", "~/x", "../x.toml", "./x", "C:\\x", "\\\\host\\x", "here.txt"]
)
def test_a_file_that_names_files_of_the_server_is_refused(
    text: str, uploads: Uploads, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here.txt").write_text("x", "utf-8")
    content = f"name = 'x'\n[node]\ntopology = '{text}'\n".encode()
    sent = uploads.keep("chip.json", content)  # its name tells nothing
    with pytest.raises(InvalidSpecError, match="name of a file of the server"):
        located(["estimate", f"--system={sent}"], str(uploads.path))


def test_a_command_line_is_shown_as_its_owner_types_it(uploads: Uploads) -> None:
    sent = uploads.keep("config.json", b"{}")
    words = located(["estimate", f"--model={sent}"], str(uploads.path))
    assert Path(words[1].removeprefix("--model=")).read_bytes() == b"{}"
    assert without_references(f"--model={sent}") == "--model=config.json"


def test_a_question_is_varied_and_its_run_found(client: TestClient) -> None:
    swept = client.get("/sweep", params=SWEEP)
    assert swept.status_code == 200
    assert "output tokens/s per GPU by batch" in swept.text
    run = client.get("/api/sweep", params=SWEEP).json()["results"]["run"]
    assert f'href="/runs/show?run={run}"' in client.get("/runs").text
    shown = client.get("/runs/show", params={"run": run})
    assert "by batch" in shown.text
    answer = client.get("/api/runs/show", params={"run": run}).json()
    assert answer["results"]["summary"]["points"] == 3
    pins = [
        ("pin", f"command=runs+show&run={run}"),
        ("pin", f"command=sweep&{urlencode(SWEEP)}"),
    ]
    report = client.get(f"/report?{urlencode(pins)}")
    assert report.status_code == 200
    assert report.text.count("by batch") >= 2
    assert f"command=runs+show&amp;run={run}" in client.get("/report").text


def test_a_report_has_the_answers_of_its_questions(client: TestClient) -> None:
    question = "command=estimate&model=openai%2Fgpt-oss-20b&batch=8"
    pins = [("pin", f"{question}&system={name}") for name in ("h200_sxm", "h100_sxm")]
    report = client.get(f"/report?{urlencode(pins)}")
    assert report.status_code == 200
    assert "h200_sxm or h100_sxm" in report.text
    assert "perfatlas report answer_1.json answer_2.json" in report.text
    assert "perfatlas-uploads" not in report.text
    for pin in ("command=nothing&x=1", "command=runs show&run=../x", f"{question}&system=h2000"):
        assert client.get("/report", params={"pin": pin}).status_code == 400


def test_links_of_an_answer_vary_it_and_report_it(client: TestClient) -> None:
    page = client.get("/estimate", params={"model": "openai/gpt-oss-20b", "system": "h200_sxm"})
    link = re.search(r'href="(/sweep\?[^"]+)"', page.text)
    assert link
    asked = dict(parse_qsl(link[1].partition("?")[2].replace("&amp;", "&")))
    assert asked["verb"] == "estimate"
    assert dict(parse_qsl(asked["question"]))["system"] == "h200_sxm"
    form = client.get(link[1].replace("&amp;", "&"))
    assert form.status_code == 200
    assert 'id="error"' not in form.text
    launch = re.search(r'href="(/search\?[^"]+)"', page.text)
    assert launch
    searched = client.get(launch[1].replace("&amp;", "&"))
    assert "vllm serve openai/gpt-oss-20b" in searched.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"verb": "profile"}, "needs a study"),
        ({"vary": ""}, "needs a study"),
        ({"vary": "no_such"}, "no field of estimate"),
        ({"vary": "system", "values": "h200_sxm, ./x.toml"}, "name of a file"),
        ({"vary": "node.topology", "values": "x"}, "may name a file"),
        ({"vary": "device.vendor", "values": "/etc/passwd"}, "name of a file"),
        ({"values": "1,,2"}, "give values"),
        ({"values": "1 to 9 in 30000 steps"}, "at most 20,000"),
        ({"question": "model=/etc/passwd&system=h200_sxm"}, "unknown model"),
        ({"question": "modle=x"}, "did you mean 'model'"),
        ({"question": "system=h200_sxm&system=b200_sxm"}, "set twice"),
        (
            {"question": "system=h200_sxm&model=gpt-oss-20b&frontier=true"},
            "cannot be set in a sweep",
        ),
        ({"vary_2": "batch", "values_2": "4"}, "vary another name"),
        ({"bogus": "1"}, "unknown field 'bogus'"),
        ({"study": "hbm"}, "leave the other fields empty"),
        ({"objective": "\u202etpot_s"}, "control characters"),
    ],
)
def test_hostile_studies_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises((InvalidSpecError, UsageError), match=message):
        study_toml({**SWEEP, **changes})


@pytest.mark.parametrize("text", [f"1{' ' * 240}to{' ' * 240}x{' ' * 240}y", "1 to " * 190])
def test_long_values_are_read_at_once(text: str) -> None:
    assert " ".join(text.split()) in study_toml({**SWEEP, "values": text})


def test_a_frontier_has_no_plan_to_launch(client: TestClient) -> None:
    asked = {"model": "openai/gpt-oss-20b", "system": "h200_sxm", "frontier": "true"}
    page = client.get("/estimate", params=asked)
    assert page.status_code == 200
    assert "emit=" not in page.text
