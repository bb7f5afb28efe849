"""The studies that come with perfatlas: all rows are answered, and better parts are faster."""

from __future__ import annotations

from pathlib import Path

import pytest

import perfatlas
from perfatlas.declarations import page_of
from perfatlas.quantities import InvalidSpecError
from perfatlas.report.charts import BarChart, LineChart
from perfatlas.report.text import label_of
from perfatlas.studies import shipped_studies
from tests.examples import few

# rows that differ in the last name of the study alone, each no slower than the one before
EXAMPLES = sorted(map(str, Path(__file__).parents[2].glob("examples/sweep/*.toml")))
GAINS = {
    "exponentials": ("flop_per_s", 2),
    "fp8_nvfp4": ("output_tokens_per_s_per_gpu", 2),
    "hbm": ("output_tokens_per_s_per_gpu", 3),
    "nvlink_domains": ("output_tokens_per_s_per_gpu", 3),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


@pytest.mark.parametrize("name", few(sorted(shipped_studies()), every=3))
def test_every_row_is_answered_and_better_parts_are_faster(name: str) -> None:
    found = perfatlas.sweep(name, jobs=1)
    assert found.results["answered"] == found.results["points"]
    assert found.run.describe()["name"] == name
    if name in GAINS:
        metric, size = GAINS[name]
        rates = found.columns[metric]
        groups = [rates[first : first + size] for first in range(0, len(rates), size)]
        assert all(group == sorted(group) and group[0] < group[-1] for group in groups)


@pytest.mark.parametrize("study", few([*sorted(shipped_studies()), *EXAMPLES], every=3))
def test_every_study_is_drawn_with_all_its_points(study: str) -> None:
    found = perfatlas.sweep(study, jobs=1)
    page = page_of("sweep")(found.to_dict(), found.columns, reproduce="")
    assert ".toml" not in page.title
    assert page.values[0].label.endswith(label_of(found.results["objective"]))
    drawn = 0
    for title, chart in page.charts():
        assert len(title) < 110
        if isinstance(chart, LineChart):
            joined = [line for line in chart.lines if line.kind == "line"]
            assert len(joined) <= 6
            assert len({line.name for line in chart.lines}) == len(chart.lines)
            for line in joined:  # a line has one value at each place
                assert list(line.x) == sorted(set(line.x))
                assert len(line.x) > 1
            drawn += sum(len(line.x) for line in joined)
            dots = [line for line in chart.lines if line.kind == "dots"]
            drawn += 0 if joined else sum(len(line.x) for line in dots)
            # a logarithmic axis where values span decades, a scale where they are large
            assert chart.x.log == (
                min(line.x[0] for line in joined) * 30 <= max(line.x[-1] for line in joined)
                if joined
                else False
            )
        else:
            assert isinstance(chart, BarChart)
            assert len({bar.name for bar in chart.bars}) == len(chart.bars)
            assert max(len(bar.name) for bar in chart.bars) <= 48
            drawn += len(chart.bars)
    sampled = "sample" in found.scenario["study"]
    assert drawn == found.results["answered"] * (len(page.charts()) if sampled else 1)


def test_generations_are_ordered_and_hbm_decides_decode() -> None:
    columns = perfatlas.sweep("generations", jobs=1).columns
    for first in (0, 7):
        tpot = columns["tpot_s"][first : first + 7]
        h100, h200, b200, _, rubin, rubin_13, rubin_22 = tpot
        assert h100 > h200 > b200 > rubin_13 > rubin_22
        assert rubin_22 == rubin


def test_a_file_of_the_same_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hbm").write_text("verb = 'kernel gemm'\n", "utf-8")
    with pytest.raises(InvalidSpecError, match="nothing varies"):
        perfatlas.sweep("hbm")
