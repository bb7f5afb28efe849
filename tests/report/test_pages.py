"""Every page has the common layout, escapes user text, and accesses no network."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import pytest

import perfatlas
from perfatlas.reliability.fleet.model import fleet_facts
from perfatlas.reliability.fleet.model.fleet_file import read_fleet
from perfatlas.reliability.telemetry.history import history_facts, read_history
from perfatlas.report.charts import Axis, Line, LineChart, Script, plotly_script
from perfatlas.report.pages import Block, Chart, Command, Page, Section, Table, page_html
from perfatlas.report.text import Value
from perfatlas.verbs.fleet import fleet_page, history_page
from perfatlas.verbs.goodput import goodput_page
from perfatlas.verbs.schedule import schedule_page
from perfatlas.verbs.simulate import SimulatedRun, traffic_page
from perfatlas.verbs.train import training_page, training_timeline
from perfatlas.version import __version__
from tests.report.support import parsed

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;"
MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def _simulate(_: Path, script: Script) -> str:
    done = perfatlas.simulate(
        model=MODEL, system="h200_sxm", isl=64, osl=8, num_requests=20, request_rate=40
    )
    answer = done.answer.to_dict()
    answer["scenario"]["model"] = HOSTILE
    answer["warnings"] = [HOSTILE]
    answer["evidence"]["assumptions"].append(HOSTILE)
    answer["evidence"]["sources"].append(HOSTILE)
    answer["evidence"]["data_versions"][HOSTILE] = HOSTILE
    run = SimulatedRun(done.per_request(), done.series(), done.out_of_service(), done.seed)
    return page_html(traffic_page(answer, run, reproduce=HOSTILE), script=script)


def _goodput(_: Path, script: Script) -> str:
    asked: dict[str, Any] = {"mtti_s": 11134, "checkpoint_write_s": 60, "restart_s": 300}
    answer = perfatlas.goodput(gpus=16384, **asked).to_dict()
    answer["scenario"]["fleet"] = HOSTILE
    answer["warnings"] = [HOSTILE]
    answer["results"]["changes"] = [
        {
            "name": HOSTILE,
            "gained_gpu_hours": 3.0,
            "gained_gpu_hours_half_width": 1.0,
            "added_gpu_hours": 0.0,
            "assumes": HOSTILE,
        }
    ]
    return page_html(
        goodput_page(answer, {"goodput": [0.5, 0.6]}, reproduce=HOSTILE), script=script
    )


def _schedule(_: Path, script: Script) -> str:
    done = perfatlas.fleet_schedule(num_jobs=50, load=0.5, nodes=4)
    answer = done.answer.to_dict()
    answer["scenario"]["jobs"] = HOSTILE
    answer["results"]["classes"][0]["kind"] = HOSTILE
    answer["warnings"] = [HOSTILE]
    return page_html(schedule_page(answer, reproduce=HOSTILE), script=script)


def _fleet(folder: Path, script: Script) -> str:
    cause = (
        "[[cause]]\nname = '''%s'''\nper_unit = 1\neffect = \"stops\"\n"
        'lifetime = { law = "exponential", mean = "%s" }\n'
    )
    text = "units = 10\n" + cause % (HOSTILE, "9 d") + cause % ("nic", "40 d")
    (folder / "fleet.toml").write_text(text, "utf-8")
    seen = {
        "name": HOSTILE,
        "events": 1,
        "mean_time_between": "40 d",
        "mean_time_between_interval": ["10 d", "90 d"],
        "lemon_nodes": [{"node": HOSTILE, "events": 3, "probability": 0.9}],
    }
    evidence = {"cause": [seen], "file": [{"path": HOSTILE, "parsed": 6}], "changed": True}
    facts = fleet_facts(read_fleet(folder / "fleet.toml"))
    facts["causes"][0]["meaning"] = HOSTILE
    return page_html(fleet_page(HOSTILE, facts, evidence, reproduce=HOSTILE), script=script)


def _history(folder: Path, script: Script) -> str:
    path = folder / "h.csv"
    node = HOSTILE.replace('"', '""')
    rows = [f'2026-03-0{day}T00:00:00+00:00,"{node}",gpu,xid_79,failure' for day in (1, 2)]
    path.write_text("\n".join(["start_s,node,component,cause,kind", *rows]) + "\n", "utf-8")
    facts = history_facts(read_history(str(path)))
    return page_html(history_page(HOSTILE, facts, reproduce=HOSTILE), script=script)


def _train(_: Path, script: Script) -> str:
    asked: dict[str, Any] = {
        "model": MODEL,
        "system": "h100_sxm",
        "tp": 4,
        "pp": 2,
        "global_batch": 4,
    }
    answer = perfatlas.train(**asked).to_dict()
    answer["scenario"]["model"] = HOSTILE
    answer["warnings"] = [HOSTILE]
    return page_html(
        training_page(answer, training_timeline(**asked), reproduce=HOSTILE), script=script
    )


PAGES: dict[str, Callable[[Path, Script], str]] = {
    "simulate": _simulate,
    "goodput": _goodput,
    "fleet schedule": _schedule,
    "train": _train,
    "fleet report": _fleet,
    "fleet report of a history": _history,
}
every_page = pytest.mark.parametrize("name", PAGES)


@cache
def _inline(name: str) -> str:
    """Return a page with its script, made once for all tests."""
    with TemporaryDirectory() as folder:
        return PAGES[name](Path(folder), "inline")


@every_page
def test_every_page_has_the_shell(name: str) -> None:
    page = _inline(name)
    read = parsed(page)
    assert page.startswith("<!doctype html>\n")
    command = name.removesuffix(" of a history")
    assert read.texts["title"][0].startswith(f"perfatlas {command}: ")
    assert f"perfatlas {command}" in read.texts["p"]
    assert len(read.texts["h1"]) == 1
    folder = resources.files("perfatlas.report.pages") / "templates"
    assert read.texts["style"] == [(folder / "page.css").read_text("utf-8").strip()]
    assert page.count("<dt>") >= 1  # the answer first
    assert page.index("<dl") < page.index("<h2>") < page.index("<figure")
    assert page.index("<figure") < page.index('id="reproduce"') < page.index('id="versions"')
    assert any(text.startswith(f"perfatlas {__version__}, ") for text in read.texts["p"])
    assert "plotly.js" in read.shown
    assert "color-scheme" in {found.get("name") for tag, found in read.tags if tag == "meta"}
    assert " %" not in read.shown.replace(HOSTILE, "")
    assert ("#warnings" in read.addresses) == ('id="warnings"' in page)


@every_page
def test_every_page_escapes_user_text(name: str) -> None:
    read = parsed(_inline(name))
    assert not {"img", "iframe", "object", "embed", "base", "form", "link"} & {
        tag for tag, _ in read.tags
    }
    assert not [found for _, found in read.tags if any(key.startswith("on") for key in found)]
    kinds = {"application/json", "application/gzip", None}
    assert {found.get("type") for found, _ in read.scripts} == kinds
    run = [text for found, text in read.scripts if found.get("type") is None]
    assert len(run) == 1  # the one that draws
    assert "alert" not in run[0]
    assert HOSTILE in read.shown


@every_page
def test_no_page_accesses_the_network(name: str) -> None:
    page = _inline(name)
    read = parsed(page)
    assert all(address.startswith("#") for address in read.addresses)
    assert "default-src 'none'" in read.policy
    assert "http" not in read.policy
    style = read.texts["style"][0]
    assert "url(" not in style
    assert "@import" not in style


def drawn(script: Script) -> str:
    figure = LineChart([Line("load", [0.0, 1.0], [1.0, 2.0], "red")], Axis("t"), Axis("load"))
    section = Section(title="Load", blocks=[Chart(figure=figure, title="Load")])
    page = Page(command="x", title="y", sections=[section], reproduce="perfatlas x")
    return page_html(page, script=script)


def test_only_own_scripts_may_run() -> None:
    read = parsed(drawn("inline"))
    plotly, draw = (f"'sha256-{_sha256(text)}'" for text in (_packed(read), read.scripts[-1][1]))
    assert f"script-src {draw} {plotly};" in read.policy


def _packed(read: Any) -> str:  # noqa: ANN401 - a page, read
    (packed,) = (text for found, text in read.scripts if found.get("id") == "plotly")
    return gzip.decompress(base64.b64decode(packed)).decode()


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_a_page_embeds_links_or_omits_the_library() -> None:
    inline, cdn, none = (drawn(script) for script in get_args(Script))
    assert "plotly.js (cartesian - minified)" in _packed(parsed(inline))[:100]
    assert 0.5e6 < len(inline) < 0.8e6
    assert len(cdn) < 20_000
    assert len(none) < 20_000
    (address,) = parsed(cdn).addresses
    assert re.fullmatch(r"https://cdn\.plot\.ly/plotly-cartesian-[\d.]+\.min\.js", address)
    assert address in parsed(cdn).policy
    (link,) = (found for found, _ in parsed(cdn).scripts if "src" in found)
    assert link["integrity"] == plotly_script("inline").digest
    assert parsed(none).addresses == []
    figures = [parsed(page).figures for page in (inline, cdn, none)]
    assert figures[0] == figures[1] == figures[2] != {}
    assert "appears when plotly.js has drawn it" in none  # what a reader sees without it


def test_a_page_without_a_chart_needs_no_library() -> None:
    table = Table(
        head=("", "value"),
        rows=[("12 us", "12 us"), ("b", "4 %")],
        dim_rows=[1],
        colours=["red"] * 2,
    )
    blocks: list[Block] = ["a text", table, Command(line="perfatlas x --a '5 %'")]
    page = Page(
        command="x",
        title="y",
        values=[Value("goodput", "5 %", "4 - 6 %")],
        evidence=[Section(title="Evidence", blocks=blocks)],
        reproduce="perfatlas x",
        versions={"perfatlas": "1"},
    )
    text = page_html(page)
    assert len(text) < 10_000
    read = parsed(text)
    assert read.scripts == []
    assert read.texts["dd"] == ["5%", "90% interval 4 - 6%"]
    # as it was written in a column of text, as print has it in one of numbers
    assert read.texts["td"] == ["12 us", "12 µs", "b", "4%"]
    assert read.texts["code"] == ["perfatlas x --a '5 %'", "perfatlas x"]
