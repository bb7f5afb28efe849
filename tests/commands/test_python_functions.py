"""Commands as functions of Python: each returns what --json prints."""

from __future__ import annotations

import inspect
import json
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
# commands whose function has another name, or that have none as they serve or list names
OTHER_NAMES = {"report": "write_report"}
WITHOUT = ("web", "catalog")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


def test_every_command_is_a_function() -> None:
    for name, (_, command) in commands().items():
        if command.run and name.split()[0] not in WITHOUT:
            function = "kernel_op" if name.startswith("kernel op ") else name.replace(" ", "_")
            assert OTHER_NAMES.get(name, function) in perfatlas.__all__, name


def _history(folder: Path) -> Path:
    perfatlas.fleet_import(LOG, format="xid", year=2026, zone="UTC", output=folder / "h.parquet")
    return folder / "h.parquet"


QUESTIONS: dict[str, Callable[[Path], tuple[dict[str, Any], list[str]]]] = {
    "profile": lambda _: (perfatlas.profile(str(PROFILE)), ["profile", str(PROFILE)]),
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
