"""`compare`: estimates side by side, and the operators that make the difference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.lab.harness import suite_file_cases
from perfatlas.quantities import PerfatlasError
from perfatlas.report.charts import StackedBars
from perfatlas.report.pages import page_html
from perfatlas.verbs.compare import compare
from perfatlas.verbs.compare.answer import step_differences
from perfatlas.verbs.compare.sections import comparison_page
from perfatlas.verbs.estimate import estimate

if TYPE_CHECKING:
    from pathlib import Path

MODEL: Final[dict[str, Any]] = {"model": "meta-llama/Llama-3.1-8B", "batch": 8}
SYSTEMS: Final[dict[str, Any]] = {**MODEL, "system": "h100_sxm", "systems": ("h200_sxm",)}


def test_rows_are_the_estimates() -> None:
    rows = compare(**SYSTEMS).results["rows"]
    for row in rows:
        alone = estimate(**MODEL, system=row["label"]).results
        assert {name: row[name] for name in ("ttft_s", "tpot_s", "tpot_s_low")} == {
            name: alone[name] for name in ("ttft_s", "tpot_s", "tpot_s_low")
        }


def test_the_facility_and_its_electricity_stand_side_by_side() -> None:
    prices: dict[str, Any] = {"pue": 1.3, "usd_per_kwh": 0.08}
    for row in compare(**SYSTEMS, **prices).results["rows"]:
        alone = estimate(**MODEL, **prices, system=row["label"]).results
        assert row["facility_power_w"] == alone["facility_power_w"]
        hourly = row["facility_power_w"] / 1000.0 * 0.08
        assert row["electricity_usd_per_hour"] == pytest.approx(hourly)
    assert "facility_power_w" not in compare(**SYSTEMS).results["rows"][0]
    capped = compare(**SYSTEMS, node_power_cap_w=4500.0).results["rows"][0]
    assert capped["power_w"] < compare(**SYSTEMS).results["rows"][0]["power_w"]


def test_differences_sum_to_that_of_the_steps() -> None:
    answer = compare(**SYSTEMS)
    first, second = (row["tpot_s"] for row in answer.results["rows"])
    decode = [row for row in answer.results["differences"] if row["phase"] == "decode"]
    assert sum(row["difference_s"] for row in decode) == pytest.approx(second - first, rel=1e-9)


def test_charts_say_which_scenario_is_a_lower_limit() -> None:
    answer = compare(**{**SYSTEMS, "systems": "cpu"}).to_dict()
    charts = dict(comparison_page(answer, reproduce="").charts())
    whole = charts["Decode step by what bounds its operators"]
    assert isinstance(whole, StackedBars)
    assert whole.values.title == "time, at least for cpu"
    note = "a lower limit on time beside a prediction"
    assert f"Decode step of cpu, by operator ({note})" in charts


def test_a_page_keeps_the_error_of_a_scenario_without_an_answer() -> None:
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-70B", "system": "h200_sxm", "tp": 2}
    answer = compare(**asked, systems="l4").to_dict()
    page = page_html(comparison_page(answer, reproduce=""), script="none")
    assert "the load does not fit" in answer["results"]["rows"][1]["error"]
    assert "the load does not fit" in page


def test_operators_by_hand() -> None:
    base = [
        {"phase": "prefill", "name": "attention", "time_s": 2.0, "bound": "compute"},
        {"phase": "decode", "name": "attention", "time_s": 3.0, "bound": "memory"},
    ]
    other = [
        {"phase": "prefill", "name": "attention", "time_s": 1.0, "bound": "compute"},
        {"phase": "decode", "name": "router", "time_s": 1.0, "bound": "latency"},
    ]
    rows = step_differences("b", base, other, (2.0, 3.0))
    found = [(row["phase"], row["name"], row["difference_s"]) for row in rows]
    assert found == [
        ("prefill", "attention", -1.0),
        ("decode", "attention", -3.0),
        ("decode", "router", 1.0),
    ]


def test_all_combinations_of_alternatives_are_compared() -> None:
    rows = compare(**SYSTEMS, format="bf16", formats="fp8").results["rows"]
    assert [row["label"] for row in rows] == [
        "h100_sxm bf16",
        "h100_sxm fp8",
        "h200_sxm bf16",
        "h200_sxm fp8",
    ]


def test_labels_name_the_system_of_a_file() -> None:
    scenario = {**MODEL, "system": "h100_sxm", "label": "a"}
    rows = compare(scenarios=[scenario], systems=("h200_sxm",)).results["rows"]
    assert [row["label"] for row in rows] == ["a h100_sxm", "a h200_sxm"]


def test_a_scenario_that_cannot_be_answered_has_its_error() -> None:
    rows = compare(**MODEL, system="h100_sxm", format="fp8", systems="a100_sxm").results["rows"]
    assert rows[0]["error"] is None
    assert "does not multiply in fp8" in rows[1]["error"]


def test_models_are_alternatives_too() -> None:
    wide = f"{MODEL['model']}{{kv_heads=4}}"
    answer = compare(**MODEL, system="h200_sxm", models=(wide,))
    rows = answer.results["rows"]
    assert [row["label"] for row in rows] == [MODEL["model"], wide]
    assert rows[1]["kv_capacity_tokens"] > 1.9 * rows[0]["kv_capacity_tokens"]


def test_the_scenario_asks_the_same_again() -> None:
    answer = compare(**SYSTEMS)
    assert compare(**answer.scenario).results == answer.results


def test_files_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, form in (("plain", "bf16"), ("quantized", "fp8")):
        text = f'model = "{MODEL["model"]}"\nsystem = "h200_sxm"\nformat = "{form}"\n'
        (tmp_path / f"{name}.toml").write_text(text, "utf-8")
    assert main(["compare", *(str(p) for p in sorted(tmp_path.iterdir()))]) == 0
    text = capsys.readouterr().out
    assert "plain compared with others" in text
    assert "quantized, decode step" in text


def test_labels_break_before_braces_and_solved_values_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    solved = "Qwen/Qwen3-8B{kv_heads=2,equal=parameters,solve=intermediate_size}"
    words = ["--model", "Qwen/Qwen3-8B", "--models", solved, "--system", "h200_sxm"]
    assert main(["compare", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Qwen/Qwen3-8B compared with others"
    assert " ".join(lines[1:3]).startswith(f"{solved} is Qwen/Qwen3-8B{{kv_heads=2,intermediate_")
    at = next(
        i for i, line in enumerate(lines) if line.startswith("  Qwen/Qwen3-8B  ") and " x" in line
    )
    assert [line.strip() for line in lines[at + 1 : at + 5]] == [
        "{kv_heads=2,",
        "equal=parameters,",
        "solve=",
        "intermediate_size}",
    ]


def test_all_compared_models_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("meta-llama/Llama-3.1-8B", "Qwen/Qwen3-8B"):
        text = f'model = "{name}"\nsystem = "h200_sxm"\n'
        (tmp_path / f"{name.partition('/')[2]}.toml").write_text(text, "utf-8")
    assert main(["compare", *(str(p) for p in sorted(tmp_path.iterdir()))]) == 0
    first = " ".join(capsys.readouterr().out.split())
    assert first.startswith("meta-llama/Llama-3.1-8B, Qwen/Qwen3-8B: Llama-3.1-8B compared")


def test_what_decides_between_two_designs_by_hand() -> None:
    results = compare(**SYSTEMS, osl=100, decide=True).results
    sums = {
        phase: sum(row["difference_s"] for row in results["differences"] if row["phase"] == phase)
        for phase in ("prefill", "decode")
    }
    expected_s = sums["prefill"] + 100 * sums["decode"]
    assert results["steps_difference_s"] == pytest.approx(expected_s)
    base = estimate(**MODEL, osl=100, system="h100_sxm").breakdown
    deviation_s = results["steps_difference_deviation_s"]
    checked = 0
    for row in results["decisions"]:
        phase, _, name = row["operators"].partition(" ")
        found = [one for one in base if (one["phase"], one["name"]) == (phase, name)]
        if row["system"] != "h100_sxm" or "," in row["operators"] or phase != "decode":
            continue
        # standard deviation of a lognormal time with this 90% interval, of its steps
        width = math.log(row["time_s_high"] / row["time_s_low"]) / 2 / 1.6449
        own_s = 100 * found[0]["count"] * row["time_s"] * width
        assert row["variance_share"] == pytest.approx((own_s / deviation_s) ** 2)
        checked += 1
    assert checked


def test_the_order_of_designs_does_not_change_what_decides() -> None:
    one = compare(**SYSTEMS, decide=True).results
    other = compare(**MODEL, system="h200_sxm", systems=("h100_sxm",), decide=True).results
    assert other["steps_difference_s"] == pytest.approx(-one["steps_difference_s"])
    shares = [row["variance_share"] for row in one["decisions"]]
    assert shares == sorted(shares, reverse=True)
    assert 0.0 < sum(shares) <= 1.0
    assert {(row["case"], row["system"]) for row in one["decisions"]} == {
        (row["case"], row["system"]) for row in other["decisions"]
    }


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"systems": ("h200_sxm", "b200_sxm")}, "two designs, and there are 3"),
        ({"tier": "bound"}, "needs intervals"),
        ({"systems": ("h200_sxm{device.memory.capacity=2GB}",)}, "can be answered"),
    ],
)
def test_decisions_that_cannot_be_made_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(PerfatlasError, match=problem):
        compare(**{**SYSTEMS, **fields}, decide=True)


def test_deciding_measurements_are_a_suite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.toml"
    asked = ["--model", "meta-llama/Llama-3.1-8B", "--system", "h100_sxm", "--systems", "h200_sxm"]
    assert main(["compare", *asked, "--decide", "--suite", str(suite)]) == 0
    assert "measurements that would most reduce it" in " ".join(capsys.readouterr().out.split())
    cases = suite_file_cases(suite)
    assert len(cases) == 3
    assert {case.system for case in cases} <= {"h100_sxm", "h200_sxm"}
    assert main(["compare", *asked, "--suite", str(suite)]) == 2
