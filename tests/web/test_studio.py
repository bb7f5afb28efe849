"""The studio: sliders, what changed, pinned scenarios, frontiers, files, saved questions."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import pytest

pytest.importorskip("fastapi")

from collections.abc import Iterator

from starlette.testclient import TestClient

from perfatlas import estimate
from perfatlas.quantities import InvalidSpecError, UsageError
from perfatlas.studies import keep_answer, kept_answer, save_question, saved_questions
from perfatlas.web import Settings, web_application
from perfatlas.web.changes import bound_shares, change_text
from perfatlas.web.exports import kinds_of
from perfatlas.web.pins import Pinned, compared, names_of, read_pins
from perfatlas.web.sliders import moved, sliders_of

if TYPE_CHECKING:
    from pathlib import Path

ESTIMATE: Final = {"model": "openai/gpt-oss-20b", "system": "h200_sxm", "batch": "8"}
CATALOG: Final = {
    "device.memory.bandwidth": "4.8 TB/s",
    "device.tdp": "700 W",
    "device.sm_count": "132",
}
REDRAW: Final = {"hx-request": "true"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = web_application(Settings(workers=1, page_after_s=60.0))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as found:
        yield found


def test_sliders_become_overrides_of_the_system() -> None:
    slid = {"system": "h200_sxm", "slider.device.memory.bandwidth": "1"}
    assert moved(slid, CATALOG) == {"system": "h200_sxm{device.memory.bandwidth=9.6TB/s}"}
    both = {"system": "h200_sxm{device.tdp=500W}", "slider.device.sm_count": "-1"}
    assert moved(both, CATALOG)["system"] == "h200_sxm{device.tdp=500W,device.sm_count=66}"
    back = {"system": "h200_sxm{device.tdp=500W}", "slider.device.tdp": "0.01"}
    assert moved(back, CATALOG)["system"] == "h200_sxm"
    kept = {"system": "h200_sxm{device.tdp=500W}", "slider.device.tdp": "-0.485"}
    assert moved(kept, CATALOG)["system"] == "h200_sxm{device.tdp=500W}"  # rounding is no move
    found = {one.label: one for one in sliders_of("h200_sxm{device.tdp=350W}", CATALOG)}
    assert found["power limit"].position == pytest.approx(-1.0)
    assert found["memory bandwidth"].value == "4.8 TB/s"
    assert "scale-up latency" not in found  # the catalog does not state it


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("slider.device.tdp", "high"),
        ("slider.device.tdp", "9"),
        ("slider.device.tdp", "nan"),
        ("slider.device.year", "1"),
        ("slider.node.topology", "1"),
    ],
)
def test_wrong_sliders_are_refused(name: str, text: str) -> None:
    with pytest.raises(InvalidSpecError, match="slider"):
        moved({"system": "h200_sxm", name: text}, CATALOG)


def _answer(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of an estimate
    return estimate(**{**ESTIMATE, "batch": 8, **fields}).to_dict()


def test_a_change_is_told_with_its_effect() -> None:
    before, after = _answer(), _answer(system="h200_sxm{device.memory.bandwidth=9.6TB/s}")
    changed = ESTIMATE | {"system": "h200_sxm{device.memory.bandwidth=9.6TB/s}"}
    told = change_text((ESTIMATE, before), (changed, after), CATALOG)
    assert told.startswith("memory bandwidth 4.8 TB/s → 9.6TB/s: TTFT ")
    tpot = after["results"]["tpot_s"] / before["results"]["tpot_s"] - 1.0
    assert f"({tpot:+.0%})" in told
    assert re.search(r"\w+ bound \d+% → \d+%", told)
    assert change_text((ESTIMATE, before), (ESTIMATE, before), CATALOG) == ""
    more = ESTIMATE | {"batch": "16", "isl": "64", "osl": "8", "tp": "1"}
    assert "and 1 more: " in change_text((ESTIMATE, before), (more, after), CATALOG)


def test_bound_shares_are_those_of_the_last_phase() -> None:
    rows = [
        {"phase": "prefill", "bound": "compute", "time_s": 9.0},
        {"phase": "decode", "bound": "memory", "time_s": 3.0},
        {"phase": "decode", "bound": "host", "time_s": 1.0},
        {"phase": "decode", "bound": "", "time_s": 5.0},
    ]
    assert bound_shares(rows) == {"memory": 0.75, "host": 0.25}
    assert bound_shares([]) == {}


def test_pinned_scenarios_say_what_is_certain() -> None:
    small, large = ESTIMATE, ESTIMATE | {"batch": "64"}
    slow = ESTIMATE | {"system": "a100_sxm"}
    assert names_of([small, large]) == ["batch 8", "batch 64"]
    assert names_of([small, slow]) == ["h200_sxm", "a100_sxm"]
    tables, remarks = compared(
        [
            Pinned(large, _answer(batch=64)),
            Pinned(slow, _answer(system="a100_sxm")),
            Pinned(small, _answer()),
        ]
    )
    assert tables[0].head[-1].endswith("(this page)")
    rows = {row[0]: row[1:] for row in tables[0].rows}
    assert re.search(r"; \+\d+%, order not certain$", rows["time per output token (TPOT)"][1])
    assert ";" not in rows["time per output token (TPOT)"][2]
    assert any(text.startswith("The scenarios differ in batch:") for text in remarks)
    assert len(tables[1].rows) == 10
    with pytest.raises(UsageError, match="at most 6"):
        read_pins(["model=a"] * 7)
    for wrong in ("", "batch=1&batch=2"):
        with pytest.raises(UsageError, match="is no question"):
            read_pins([wrong])


def test_a_form_redraws_its_answer(client: TestClient) -> None:
    page = client.get("/estimate", params=ESTIMATE)
    assert page.text.count('type="range"') == 6
    assert '<p id="change" role="status" class="change"></p>' in page.text
    current = {**REDRAW, "hx-current-url": str(page.url), "hx-trigger": "sliders"}
    slid = {**ESTIMATE, "isl": "", "slider.device.memory.bandwidth": "1"}
    part = client.get("/estimate", params=slid, headers=current)
    assert part.status_code == 200
    system = "system=h200_sxm%7Bdevice.memory.bandwidth%3D9.6TB%2Fs%7D"
    assert part.headers["hx-push-url"] == f"/estimate?model=openai%2Fgpt-oss-20b&{system}&batch=8"
    assert "memory bandwidth 4.8 TB/s → 9.6TB/s: TTFT" in part.text
    assert "<html" not in part.text
    assert 'hx-swap-oob="true">9.6TB/s</output>' in part.text
    typed = {**REDRAW, "hx-trigger": "question"}  # of another input, sliders do not count
    other = client.get("/estimate", params=slid, headers=typed)
    assert other.headers["hx-push-url"].endswith("&system=h200_sxm&batch=8")
    assert '<div id="sliders"' in other.text
    wrong = client.get("/estimate", params={**ESTIMATE, "batch": "0"}, headers=REDRAW)
    assert 'role="alert"' in wrong.text
    strange = {**REDRAW, "hx-current-url": "http://[?%zz&batch"}
    assert client.get("/estimate", params=ESTIMATE, headers=strange).status_code == 200
    restored = client.get(
        "/estimate", params=ESTIMATE, headers={**REDRAW, "hx-history-restore-request": "true"}
    )
    assert "<html" in restored.text


def test_the_address_has_the_pinned_scenarios(client: TestClient) -> None:
    pins = [("pin", urlencode(ESTIMATE | {"batch": "1"})), ("pin", urlencode(ESTIMATE))]
    page = client.get("/estimate", params=urlencode([*ESTIMATE.items(), *pins]))
    assert page.status_code == 200
    assert "Pinned scenarios" in page.text
    assert "Pin this scenario" not in page.text  # it is pinned already
    assert page.text.count('<input type="hidden" name="pin"') == 2
    frontier = client.get(f"/frontier?{urlencode(pins)}")
    figure = json.loads(re.search(r"json\">(.*?)</script>", frontier.text)[1])  # type: ignore[index]
    links = figure["layout"]["meta"]["links"]
    assert links[0][0].startswith("/estimate?model=openai%2Fgpt-oss-20b&system=h200_sxm&batch=1&")
    points = [0 if "fill" in trace else len(trace["x"]) for trace in figure["data"]]
    assert [len(one) for one in links] == points  # intervals have no points
    assert points.count(0) == 2
    hostile = client.get("/estimate", params={**ESTIMATE, "pin": "model=/etc/passwd"})
    assert hostile.status_code == 400
    assert "is not" in hostile.text or "unknown" in hostile.text
    unread = client.get("/frontier", params={"pin": "model=../x"})
    assert 'class="warning"' in unread.text


def test_a_question_becomes_a_file(client: TestClient) -> None:
    files = {
        kind: client.get(f"/export/{kind}/estimate", params=ESTIMATE)
        for kind in ("toml", "ipynb", "csv")
    }
    assert 'model = "openai/gpt-oss-20b"' in files["toml"].text
    assert files["csv"].text.startswith("name,phase,")
    notebook = files["ipynb"].json()
    assert notebook["nbformat"] == 4
    scope: dict[str, Any] = {}
    exec(notebook["cells"][0]["source"], scope)  # noqa: S102 - the notebook of the answer
    asked = client.get("/api/estimate", params=ESTIMATE).json()["results"]["ttft_s"]
    assert scope["answer"].results["ttft_s"] == pytest.approx(asked)
    conv = {"system": "h200_sxm", "batch": "8", "height": "56", "width": "56", "channels": "64",
            "filters": "64", "kernel": "3"}  # fmt: skip
    assert client.get("/export/ipynb/kernel/op/conv", params=conv).status_code in (400, 404)
    assert client.get("/export/exe/estimate", params=ESTIMATE).status_code == 404
    assert client.get("/export/csv/web").status_code == 404
    assert client.get("/export/csv/estimate", params={"model": "x/../y"}).status_code == 400


def test_the_charts_of_a_question_become_an_image(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = client.get("/estimate", params=ESTIMATE).text
    for kind, start in (("svg", b"<?xml"), ("png", b"\x89PNG")):
        assert f'href="/export/{kind}/estimate?' in page
        image = client.get(f"/export/{kind}/estimate", params=ESTIMATE)
        assert image.headers["content-type"].startswith("image/")
        assert image.content.startswith(start)
    assert client.get("/export/svg/estimate", params={"model": "x/../y"}).status_code == 400
    named = client.get("/export/svg/estimate", params={**ESTIMATE, "figure": "x.svg"})
    assert named.status_code == 400  # a client names no file
    monkeypatch.setattr("perfatlas.web.exports.find_spec", lambda _: None)
    body = '<div class="chart">'
    assert kinds_of("estimate", {"command": "estimate"}, body) == ["toml", "ipynb"]


def test_questions_are_kept_under_a_name(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path))
    link = f"/estimate?{urlencode(ESTIMATE)}"
    saved = client.post("/saved", data={"name": "my <b>GPU</b>", "address": link})
    assert (saved.status_code, saved.headers["location"]) == (303, link)
    home = client.get("/")
    assert "my &lt;b&gt;GPU&lt;/b&gt;" in home.text
    assert saved_questions() == {"my <b>GPU</b>": link}
    deleted = client.post("/saved", data={"name": "my <b>GPU</b>"})
    assert (deleted.status_code, saved_questions()) == (303, {})
    for data in (
        {"name": "", "address": link},
        {"name": "x" * 99, "address": link},
        {"name": "other", "address": "https://example.com/estimate"},
        {"name": "other", "address": "//example.com/estimate"},
        {"name": "other", "address": "//["},
        {"name": "other", "address": "/nowhere"},
        {"name": "unknown"},
    ):
        assert client.post("/saved", data=data).status_code == 400
    other = client.post(
        "/saved", data={"name": "a", "address": link}, headers={"sec-fetch-site": "same-site"}
    )
    assert other.status_code == 403
    attacker = {"origin": "http://attacker.example"}
    assert client.post("/saved", data={"name": "a", "address": link}, headers=attacker).is_error
    assert saved_questions() == {}
    (tmp_path / "data" / "saved_questions.json").write_text("[]", "utf-8")
    assert "cannot read the saved questions" in client.get("/").text
    with pytest.raises(InvalidSpecError, match="cannot read the saved questions"):
        save_question("a", link)


def test_the_first_page_has_pictures_of_examples(client: TestClient) -> None:
    home = client.get("/").text
    pictures = [link.replace("&amp;", "&") for link in re.findall(r'hx-get="([^"]+)"', home)]
    assert len(pictures) == 5
    for link in pictures:
        part = client.get(link)
        assert part.status_code == 200
        assert "<figure" in part.text, link
    for link in re.findall(r'<h2><a href="([^"]+)"', home):
        assert client.get(link.replace("&amp;", "&")).status_code == 200
    assert client.get("/picture/web").status_code == 404
    assert client.get("/picture/estimate", params={"model": "/etc"}).status_code == 404


SEARCHED: Final = {
    "model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "gpus": "2", "mode": "static",
}  # fmt: skip
SIMULATED: Final = {
    "model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "num_requests": "300",
    "request_rate": "4", "isl": "512", "osl": "64",
}  # fmt: skip


def _ended(client: TestClient, key: str) -> None:
    for _ in range(3000):  # on a busy machine
        progress = client.get(f"/progress/{key}")
        if progress.headers.get("hx-refresh"):
            return
        assert "working for" in progress.text
        time.sleep(0.2)
    raise AssertionError("the job did not end")


def test_a_long_question_goes_on_and_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path))
    settings = Settings(workers=1, page_after_s=0.0)
    with TestClient(
        web_application(settings), base_url="http://localhost", follow_redirects=False
    ) as first:
        page = first.get("/search", params=SEARCHED)
        (key,) = re.findall(r'hx-get="/progress/(\w+)"', page.text)
        assert f'action="/cancel/{key}"' in first.get("/").text  # the first page lists it
        _ended(first, key)
        answer = first.get("/search", params=SEARCHED).text
        assert "<h2>Best plan" in answer or "Frontier of throughput" in answer
        assert first.get("/progress/unknown").headers["hx-refresh"] == "true"
    (kept,) = (tmp_path / "data" / "answers").iterdir()
    with TestClient(web_application(settings), base_url="http://localhost") as again:
        again.get("/search", params=SEARCHED)
        time.sleep(1.0)  # it is read, not computed
        assert _values(again.get("/search", params=SEARCHED).text) == _values(answer)
    kept.write_bytes(b"damaged")
    assert kept_answer(key) is None


def _values(page: str) -> list[str]:
    return re.findall(r"<dd>(.*?)</dd>", page)


def test_a_job_is_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path))
    app = web_application(Settings(workers=1, page_after_s=0.0))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as found:
        long = SIMULATED | {"num_requests": "3000000", "request_rate": "0.01"}
        page = found.get("/simulate", params=long)
        (key,) = re.findall(r'hx-get="/progress/(\w+)"', page.text)
        refused = found.post(f"/cancel/{key}", headers={"sec-fetch-site": "same-site"})
        assert refused.status_code == 403
        cancelled = found.post(f"/cancel/{key}")
        assert cancelled.status_code == 303
        assert cancelled.headers["location"].endswith("&edit=yes")
        assert found.get(f"/progress/{key}").headers["hx-refresh"] == "true"
        other = found.get("/simulate", params=long)  # another tab that waited
        assert "this question was cancelled" in other.text
        assert other.status_code == 409
        assert found.post("/cancel/unknown").headers["location"] == "/"
    assert not (tmp_path / "data" / "answers").exists()


def test_a_long_question_that_fails_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path))
    app = web_application(Settings(workers=1, page_after_s=0.0, limit_s=0.5))
    with TestClient(app, base_url="http://localhost", follow_redirects=False) as found:
        long = SIMULATED | {"num_requests": "3000000", "request_rate": "0.01"}
        page = found.get("/simulate", params=long)
        (key,) = re.findall(r'hx-get="/progress/(\w+)"', page.text)
        _ended(found, key)
        ended = found.get("/simulate", params=long)
        assert ended.status_code == 504
        assert "no answer after 0.5 s" in ended.text


def test_an_answer_is_kept_until_the_files_of_the_user_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path))
    keep_answer("a", [200, {}])
    assert kept_answer("a") == [200, {}]
    fit = tmp_path / "data" / "calibrations" / "h100_sxm.toml"
    fit.parent.mkdir()
    fit.write_text("", "utf-8")
    assert kept_answer("a") is None
