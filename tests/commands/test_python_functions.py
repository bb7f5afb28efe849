"""Commands as functions of Python: each returns what --json prints."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import perfatlas
from perfatlas.cli import main
from perfatlas.declarations import commands
from perfatlas.quantities import PerfatlasError, UsageError

EXAMPLES = Path(__file__).parents[2] / "examples"
LOG = EXAMPLES / "logs" / "kern.log"
PROFILE = EXAMPLES / "profiles" / "h100_two_layers.json.gz"
STUDY = {
    "verb": "kernel gemm",
    "scenario": {"system": "h200_sxm", "n": 512, "k": 512},
    "vary": {"m": [1, 64]},
}
# commands whose function has another name, or that have none as they serve
OTHER_NAMES = {"report": "write_report"}
WITHOUT = ("web",)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_every_command_is_a_function() -> None:
    for name, (_, command) in commands().items():
        if command.run and name.split()[0] not in WITHOUT:
            forms = ("kernel op", "kernel tune")
            found = next((form for form in forms if name.startswith(form)), name)
            function = found.replace(" ", "_")
            assert OTHER_NAMES.get(name, function) in perfatlas.__all__, name


def _history(folder: Path) -> Path:
    perfatlas.fleet_import(LOG, format="xid", year=2026, zone="UTC", output=folder / "h.parquet")
    return folder / "h.parquet"


QUESTIONS: dict[str, Callable[[Path], tuple[dict[str, Any], list[str]]]] = {
    "profile": lambda _: (perfatlas.profile(str(PROFILE)), ["profile", str(PROFILE)]),
    "catalog": lambda _: (perfatlas.catalog("formats"), ["catalog", "formats"]),
    "catalog entry": lambda _: (
        perfatlas.catalog("systems", "h200_sxm"),
        ["catalog", "systems", "show", "h200_sxm"],
    ),
    "runs list": lambda _: (perfatlas.runs_list(), ["runs", "list"]),
    "runs show": lambda _: (perfatlas.runs_show("study"), ["runs", "show", "study"]),
    "runs export": lambda at: (
        perfatlas.runs_export("study", output=str(at / "r.csv")),
        ["runs", "export", "study", "--output", str(at / "r.csv")],
    ),
    "fleet import": lambda at: (
        perfatlas.fleet_import([LOG], format="xid", year=2026, zone="UTC", output=at / "h.csv"),
        [
            *("fleet", "import", "--format", "xid", "--year", "2026", "--zone", "UTC"),
            *("--output", str(at / "h.csv"), str(LOG)),
        ],
    ),
    "fleet report": lambda _: (perfatlas.fleet_report("llama3"), ["fleet", "report", "llama3"]),
    "history report": lambda at: (
        perfatlas.fleet_report(str(_history(at))),
        ["fleet", "report", str(at / "h.parquet")],
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_function_returns_what_json_prints(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    perfatlas.sweep(STUDY, jobs=1)
    found, words = QUESTIONS[name](tmp_path)
    assert capsys.readouterr().out == ""
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(found))


TABLES: dict[str, tuple[str, str, str]] = {  # a column of the frame, and the list of rows it is of
    "profile": ("time_s", "operators", "Time by class"),
    "catalog": ("name", "formats", ""),
    "runs list": ("id", "runs", ""),
    "fleet import": ("path", "files", ""),
    "fleet report": ("name", "fleet.causes", "Share of failures"),
    "history report": ("events", "history.causes", ""),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_answer_of_a_command_has_frames_and_plots(name: str, tmp_path: Path) -> None:
    perfatlas.sweep(STUDY, jobs=1)
    column, rows, chart = TABLES[name]
    answer = QUESTIONS[name](tmp_path)[0]
    assert isinstance(answer, perfatlas.CommandAnswer)
    expected = answer["results"]
    for key in rows.split("."):
        expected = expected[key]
    assert answer.columns[column] == [row[column] for row in expected] != []
    assert answer.to_frame(rows).shape[0] == answer.to_frame().shape[0] == len(expected)
    assert str(answer).startswith(f"perfatlas {answer.command}")
    assert answer._repr_html_().startswith("<div><b>perfatlas ")
    assert (answer.scenario, answer.warnings) == (answer["scenario"], answer["warnings"])
    with pytest.raises(AttributeError, match="'resutls'"):
        _ = answer.resutls
    if chart:
        assert answer.plot(chart).axes


def test_new_files_of_a_catalog_are_written_and_checked(tmp_path: Path) -> None:
    path = str(tmp_path / "chip.toml")
    assert perfatlas.catalog("systems", "new", path, base="h200_sxm").results == {"file": path}
    assert perfatlas.catalog("systems", "check", path).results == {"file": path, "name": "chip"}


def test_a_report_and_deleted_runs(tmp_path: Path) -> None:
    run = perfatlas.sweep(STUDY, jobs=1).run.id
    path = perfatlas.write_report(run, output=tmp_path / "report.md")
    assert "kernel gemm" in path.read_text("utf-8")
    assert perfatlas.runs_rm(run)["results"] == {"deleted": [run]}
    assert perfatlas.runs_list()["results"]["runs"] == []


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (perfatlas.calibrate, UsageError, "missing device"),
        (lambda: perfatlas.profile("none.json"), PerfatlasError, "none.json"),
        (lambda: perfatlas.kernel_inspect("no_such_kernel"), PerfatlasError, "no_such_kernel"),
        (lambda: perfatlas.bench_compare("a.csv", "b.csv"), PerfatlasError, "a.csv"),
        (lambda: perfatlas.model_import("a.pt2", output="a.txt"), UsageError, ".toml"),
        (lambda: perfatlas.runs_show("none"), PerfatlasError, "none"),
        (lambda: perfatlas.profile("a.json", agianst="b.json"), TypeError, "agianst"),  # type: ignore[call-arg]
    ],
)
def test_errors_are_those_of_the_command(
    ask: Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ask()


def test_signatures_have_the_flags_with_units_and_types() -> None:
    for name in ("fleet_fit", "bench_run", "bench_device", "validate_here", "calibrate"):
        function = getattr(perfatlas, name)
        parameters = inspect.signature(function).parameters
        assert not {"json", "verbose", "page", "flags"} & parameters.keys()
        for parameter in parameters:
            assert f"{parameter}: " in function.__doc__


def test_every_class_that_the_documentation_lists_is_exported() -> None:
    text = (EXAMPLES.parent / "docs" / "python.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`([A-Z]\w+)`", row)}
    assert named >= {"Answer", "SearchAnswer", "FleetPlan"}
    assert named <= set(perfatlas.__all__)
