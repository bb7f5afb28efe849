"""`compare`: estimates side by side, and the operators that make the difference."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.lab.harness import suite_file_cases
from perfatlas.quantities import InvalidSpecError
from perfatlas.report.pages import Chart
from perfatlas.report.text import order_is_open, ratio_interval
from perfatlas.verbs.compare import compare
from perfatlas.verbs.compare.answer import ratios_to, step_differences
from perfatlas.verbs.compare.blocks import SHOWN, comparison_page
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.report.conclusion import concluded
from perfatlas.verbs.search import search

MODEL: Final[dict[str, Any]] = {"model": "meta-llama/Llama-3.1-8B", "batch": 8}
SYSTEMS: Final[dict[str, Any]] = {**MODEL, "system": "h100_sxm", "systems": ("h200_sxm",)}


def test_rows_are_the_estimates() -> None:
    rows = compare(**SYSTEMS).results["rows"]
    for row in rows:
        alone = estimate(**MODEL, system=row["label"]).results
        assert {name: row[name] for name in ("ttft_s", "tpot_s", "tpot_s_low")} == {
            name: alone[name] for name in ("ttft_s", "tpot_s", "tpot_s_low")
        }


def test_differences_sum_to_that_of_the_steps() -> None:
    answer = compare(**SYSTEMS)
    first, second = (row["tpot_s"] for row in answer.results["rows"])
    decode = [row for row in answer.results["differences"] if row["phase"] == "decode"]
    assert sum(row["difference_s"] for row in decode) == pytest.approx(second - first, rel=1e-9)


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


def test_a_scenario_that_cannot_be_answered_has_its_error() -> None:
    rows = compare(**MODEL, system="h100_sxm", format="fp8", systems="a100_sxm").results["rows"]
    assert rows[0]["error"] is None
    assert "does not multiply in fp8" in rows[1]["error"]


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


def test_results_of_tokens_and_of_items_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("compare", "--model", "whisper-large-v3", "--system", "h100_sxm")
    main([*asked, "--systems", "h200_sxm"])
    text = capsys.readouterr().out
    assert "clips/s" in text
    assert "TTFT" in text
    main([*asked, "--models", "resnet-50"])  # a clip is no image
    table = capsys.readouterr().out.partition("confidence")[0]
    assert "items/s" in table
    assert " x0" not in table


def test_scenarios_that_state_their_gpus_run_one_plan_at_one_load() -> None:
    asked: dict[str, Any] = {"model": "meta-llama/Llama-3.1-70B", "gpus": 8, "batch": 32}
    for systems in (("h100_sxm", "b200_sxm"), ("b200_sxm", "h100_sxm")):
        rows = compare(**asked, systems=systems).results["rows"]
        assert {row["plan"] for row in rows} == {"tp 4, dp 2"}
        assert {row["concurrency"] for row in rows} == {64}
        time_s = {row["label"]: row["tpot_s"] for row in rows}
        assert time_s["b200_sxm"] < time_s["h100_sxm"]


def test_plans_that_differ_are_said_in_the_first_lines(capsys: pytest.CaptureFixture[str]) -> None:
    files = [
        {"label": "two", "system": "h100_sxm", "tp": 2, "dp": 2},
        {"label": "four", "system": "h100_sxm", "tp": 4},
    ]
    rows = compare(scenarios=files, model="meta-llama/Llama-3.1-8B", batch=8).results["rows"]
    assert [row["plan"] for row in rows] == ["tp 2, dp 2", "tp 4"]
    assert [row["concurrency"] for row in rows] == [16, 8]
    # tp 8 holds 405B on 8 H200, and does not divide the 14 heads of 0.5B
    words = ["compare", "--models", "meta-llama/Llama-3.1-405B,Qwen/Qwen2.5-0.5B"]
    assert main([*words, "--system", "h200_sxm", "--gpus", "8", "--batch", "4"]) == 0
    second = capsys.readouterr().out.splitlines()[1]
    assert second.startswith("plans differ")


def test_engines_that_differ_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--model", "meta-llama/Llama-3.1-8B", "--systems", "h100_sxm,tpu_v6e"]
    assert main(words) == 0
    head = capsys.readouterr().out.partition("TTFT")[0]
    assert "engines differ" in head
    assert "vllm_tpu@" in head


UNDER_SLO: Final[dict[str, Any]] = {
    "model": "meta-llama/Llama-3.1-70B",
    "gpus": 8,
    "slo_tpot_s": 0.04,
    "systems": ("h100_sxm", "b200_sxm"),
}


def test_scenarios_with_an_slo_are_at_the_best_plan_of_search() -> None:
    answer = compare(**UNDER_SLO, pue=1.2)
    for row, scenario in zip(answer.results["rows"], answer.scenario["scenarios"], strict=True):
        asked = {n: v for n, v in UNDER_SLO.items() if n != "systems"}
        best = search(**asked, system=row["label"], num_simulated=0).results["plans"][0]
        names = ("output_tokens_per_s_per_gpu", "tpot_s", "concurrency")
        assert {n: row[n] for n in names} == pytest.approx({n: best[n] for n in names})
        assert row["tpot_s"] < scenario["slo_tpot_s"] == 0.04
    plans = [row["plan"] for row in answer.results["rows"]]
    assert plans == ["tp 8", "tp 4, dp 2"]


def test_what_is_equal_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "--model", "meta-llama/Llama-3.1-8B", "--systems", "h100_sxm,b200_sxm"]
    assert main([*words, "--gpus", "2", "--slo-tpot-s", "0.04", "--isl", "512"]) == 0
    head = " ".join(capsys.readouterr().out.partition("TTFT  ")[0].split())
    slo = "TPOT within 40.0 ms with a probability of at least 80%"
    assert f"each at its best plan for tokens/s/GPU under {slo} on 2 GPUs, by closed forms" in head
    strict = compare(**{**UNDER_SLO, "systems": ("h200_sxm", "b200_sxm")}, min_slo_probability=0.95)
    lines = comparison_page(strict.to_dict(), reproduce="").lines
    assert any("with a probability of at least 95%" in line for line in lines)
    assert strict.scenario["scenarios"][1]["min_slo_probability"] == 0.95
    files = []
    for tp in (1, 2):
        files.append(str(tmp_path / f"tp_{tp}.toml"))
        Path(files[-1]).write_text(f"tp = {tp}\n", "utf-8")
    assert main(["compare", *files, *words[1:3], "--system", "h100_sxm", "--batch", "8"]) == 0
    assert "1 or 2 GPUs: equal load per deployment, rates per GPU" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"gpus": None}, "slo_tpot_s needs gpus"),
        ({"batch": 8}, "batch cannot be combined with an SLO"),
        ({"slo_tpot_s": None, "objective": "gpus"}, "objective has no effect without an SLO"),
        (
            {
                "slo_tpot_s": None,
                "systems": None,
                "system": "h100_sxm",
                "scenarios": [{"slo_tpot_s": 0.1}, {"tp": 8}],
            },
            "scenario 2 without an SLO",
        ),
    ],
)
def test_what_has_no_best_plan_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpecError, match=message):
        compare(**{**UNDER_SLO, **changed})


def test_intervals_of_ratios_by_hand(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors of x2 of both are, in quadrature, one of 2^sqrt(2) = 2.665; alone it is of x2."""
    base, other = (
        {"time_s": value, "time_s_low": value / 2, "time_s_high": value * 2} for value in (3.0, 6.0)
    )
    assert ratio_interval(other, base, "time_s") == pytest.approx(
        (2 / 2.6651, 2 * 2.6651), rel=1e-4
    )
    assert order_is_open(other, base, "time_s")
    exact = {"time_s": 2.0, "time_s_low": 2.0, "time_s_high": 2.0}
    assert ratio_interval(other, exact, "time_s") == pytest.approx((1.5, 6.0))
    assert not order_is_open(other, exact, "time_s")
    assert ratio_interval({"time_s": 1.0}, base, "time_s") is None
    main(["compare", "--model", MODEL["model"], "--systems", "l40s,h100_sxm,b200_sxm"])
    text = capsys.readouterr().out
    assert "not certain: the 90% interval of the ratio" in text
    assert any("~" in line and line.count(" x") > line.count("~") for line in text.splitlines())


def test_ratios_by_hand() -> None:
    """One twice as long, with errors of x2 each, is x0.75 to x5.33; exact, it is x1.5 to x2.67."""
    base: dict[str, Any] = {"label": "a", "tpot_s": 3.0, "tpot_s_low": 1.5, "tpot_s_high": 6.0}
    base |= {"output_tokens_per_s_per_gpu": 20.0, "usd_per_million_output_tokens": None}
    other = {"label": "b", "tpot_s": 6.0, "tpot_s_low": 3.0, "tpot_s_high": 12.0}
    other |= {"output_tokens_per_s_per_gpu": 10.0, "usd_per_million_output_tokens": 1.0}
    time, rate = ratios_to(other, base)
    assert (time["label"], time["metric"], time["ratio"]) == ("b", "tpot_s", 2.0)
    assert [time["ratio_low"], time["ratio_high"]] == pytest.approx([0.75045, 5.33010], rel=1e-4)
    assert time["certain"] is False
    assert rate == {
        "label": "b",
        "metric": "output_tokens_per_s_per_gpu",
        "ratio": 0.5,
        "ratio_low": None,  # without intervals, nothing is certain
        "ratio_high": None,
        "certain": False,
    }
    narrow = {"label": "c", "tpot_s": 6.0, "tpot_s_low": 4.5, "tpot_s_high": 8.0}
    exact = {"label": "d", "tpot_s": 3.0, "tpot_s_low": 3.0, "tpot_s_high": 3.0}
    (row,) = ratios_to(narrow, exact)
    assert [row["ratio_low"], row["ratio_high"]] == pytest.approx([1.5, 8 / 3])
    assert row["certain"] is True
    (limited,) = ratios_to({**narrow, "tier": "bound"}, exact)
    assert (limited["ratio"], limited["ratio_low"], limited["certain"]) == (2.0, None, False)


def test_pictures_of_the_page_have_the_rows_and_a_report_has_each_once() -> None:
    answer = compare(**SYSTEMS)
    (panel,) = answer.plot("cost per million").axes
    rows = answer.results["rows"]
    assert [bar.get_width() for bar in panel.patches] == [
        row["usd_per_million_output_tokens"] for row in rows
    ]
    assert not [
        block
        for one in concluded([answer.to_dict()])[1]
        for block in one.blocks
        if isinstance(block, Chart)
    ]
    assert answer.to_frame("rows").shape == answer.to_frame().shape


def test_the_text_marks_the_ratios_that_json_calls_uncertain(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["compare", "--model", MODEL["model"], "--systems", "l40s,h100_sxm,b200_sxm"])
    text = capsys.readouterr().out
    ratios = compare(model=MODEL["model"], systems=("l40s", "h100_sxm", "b200_sxm")).results[
        "ratios"
    ]
    shown = [row for row in ratios if row["metric"] in SHOWN]
    assert len(shown) == 2 * len(SHOWN)
    table = text.partition("~ not certain")[0]
    for row in shown:
        ratio = f"x{row['ratio']:.2f}"
        assert f"{ratio}{'' if row['certain'] else '~'}" in table
        assert (f"{ratio}~" in table) is not row["certain"]
    assert {row["certain"] for row in shown} == {True, False}


@pytest.mark.parametrize("free", [{"usd_per_kwh": 0}, {"usd_per_kwh": 0.1, "gco2_per_kwh": 0}])
def test_a_metric_that_is_zero_in_the_base_has_no_ratio(free: dict[str, Any]) -> None:
    answer = compare(**SYSTEMS, pue=1.3, **free)
    zero = {name for name, value in answer.results["rows"][0].items() if value == 0.0}
    assert zero >= {"electricity_usd_per_hour"} or zero >= {"gco2_per_hour"}
    ratios = {row["metric"] for row in answer.results["ratios"]}
    assert "facility_power_w" in ratios
    assert not zero & ratios
    assert str(answer)
