"""Answers in Python and notebooks: text, HTML, plots and data frames."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import perfatlas
from perfatlas.answer import Answer, AnsweredRun
from perfatlas.quantities import InvalidSpecError, MissingDependencyError

MODEL: Final[dict[str, Any]] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
JOB: Final[dict[str, Any]] = {
    **MODEL,
    "gpus": 8,
    "pp": 2,
    "global_batch": 16,
    "sequence_length": 2048,
}
ANSWERS: Final[dict[str, Callable[[], Answer | AnsweredRun]]] = {
    "estimate": lambda: perfatlas.estimate(**MODEL),
    "frontier": lambda: perfatlas.frontier(**MODEL, isl=64, osl=8),
    "explain": lambda: perfatlas.explain(**MODEL, isl=64, osl=8),
    "kernel": lambda: perfatlas.kernel_gemm(system="h200_sxm", m=64, n=8192, k=8192),
    "collective": lambda: perfatlas.collective(
        system="h200_sxm", op="all_reduce", bytes=2**20, gpus=8
    ),
    "accuracy": lambda: perfatlas.accuracy(model=MODEL["model"], gemm_format="nvfp4"),
    "search": lambda: perfatlas.search(**MODEL, gpus=1, num_simulated=0),
    "train": lambda: perfatlas.train(**JOB),
    "goodput": lambda: perfatlas.goodput(gpus=64, mtti_s=1e4, checkpoint_write_s=9, restart_s=30),
    "spares": lambda: perfatlas.goodput_spares(nodes=64, node_mtbf_s=1e7, repair_s=9e4, spares=2),
    "schedule": lambda: perfatlas.fleet_schedule(nodes=8, num_jobs=50, load=0.8),
    "simulate": lambda: perfatlas.simulate(**MODEL, request_rate=2, num_requests=20),
}
PROFILE: Final = Path(__file__).parents[2] / "examples" / "profiles" / "h100_two_layers.json.gz"
SLOW: Final = ("frontier", "explain", "search", "goodput", "schedule", "simulate", "train")


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[pytest.mark.study] * (one in SLOW)) for one in ANSWERS]
)
def test_every_answer_shows_itself_as_text_and_html(name: str) -> None:
    answer = ANSWERS[name]()
    text, html = str(answer), answer._repr_html_()
    assert text.startswith(f"perfatlas {answer.command}")
    assert 2 <= len(text.splitlines()) <= 8
    assert html.startswith("<div><b>perfatlas ")
    for line in text.splitlines()[1:]:
        assert line.startswith("  ")


def test_a_plot_is_a_picture_in_a_notebook() -> None:
    figure = perfatlas.estimate(**MODEL).plot("roofline")
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert "Figure" in repr(figure)  # in a plain terminal


def test_long_operators_of_a_profile_are_beside_one_line_and_no_bar_is_cut() -> None:
    answer = perfatlas.profile(PROFILE)
    (panel,) = answer.plot("beside their predictions").axes
    names = [tick.get_text() for tick in panel.get_yticklabels()]
    assert set(names[1::2]) == {"predicted"}
    assert max(name.count("\n") for name in names[::2]) <= 2
    longest_s = max(answer.columns["time_s"])
    assert panel.get_xlim()[0] == 0.0
    assert panel.get_xlim()[1] > longest_s


def test_long_lists_of_an_answer_are_cut() -> None:
    text = str(perfatlas.catalog("systems"))
    assert text.endswith(" ...")
    assert max(map(len, text.splitlines())) < 120


def test_html_escapes_names() -> None:
    answer = perfatlas.estimate(**MODEL)
    hostile = dict(answer.scenario) | {"model": "<script>"}
    shown = perfatlas.Answer(
        command="estimate", scenario=hostile, results={}, breakdown=[], evidence=answer.evidence
    )
    assert "<script>" not in shown._repr_html_()
    assert "&lt;script&gt;" in shown._repr_html_()


def test_a_plot_has_the_values_of_the_answer_and_is_chosen_by_title() -> None:
    answer = perfatlas.frontier(**MODEL, isl=64, osl=8)
    (panel,) = answer.plot("per GPU over").axes
    drawn = panel.lines[0].get_xydata().tolist()
    rows: list[dict[str, Any]] = answer.results["frontier"]
    shown = ("output_tokens_per_s_per_user", "output_tokens_per_s_per_gpu")
    assert drawn == [[row[name] for name in shown] for row in rows]


def test_frames_are_those_of_the_installed_library(monkeypatch: pytest.MonkeyPatch) -> None:
    class Frame(dict[str, list[Any]]):
        """Data frame of a library that stands for polars."""

    library = type(sys)("polars")
    library.__spec__ = sys.__spec__
    monkeypatch.setattr(library, "DataFrame", Frame, raising=False)
    monkeypatch.setitem(sys.modules, "polars", library)
    answer = perfatlas.frontier(**MODEL, isl=64, osl=8)
    assert answer.to_frame() == answer.columns
    assert answer.to_frame("frontier")["batch"] == answer.columns["batch"]
    operators = perfatlas.estimate(**MODEL)
    names = [row["name"] for row in operators.breakdown]
    assert operators.to_frame("breakdown")["name"] == names
    with pytest.raises(InvalidSpecError, match=r"'frontie'.*did you mean 'frontier'"):
        answer.to_frame("frontie")


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = perfatlas.frontier(**MODEL, isl=64, osl=8)
    monkeypatch.setattr("perfatlas.answer.envelope.FRAMES", ("no_such_library",))
    with pytest.raises(MissingDependencyError, match="pip install polars"):
        answer.to_frame()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match="pip install"):
        answer.plot()
    assert "pip install" in answer._repr_html_()
