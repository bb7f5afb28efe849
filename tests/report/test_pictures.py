"""Charts of estimates, kernels, collectives, accuracy and sweeps have the values of the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

import perfatlas
from perfatlas.answer import Answer, AnsweredRun
from perfatlas.declarations import page_of
from perfatlas.report.charts import Drawing, HeatMap, LineChart, StackedBars
from perfatlas.report.text import format_value
from perfatlas.studies import runs_folder

MODEL: Final[dict[str, Any]] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}
GEMM: Final[dict[str, Any]] = {"system": "h200_sxm", "m": 64, "n": 8192, "k": 8192}
KERNELS: Final = {
    "gemm": lambda: perfatlas.kernel_gemm(**GEMM),
    "attention": lambda: perfatlas.kernel_attention(
        system="h200_sxm", phase="prefill", kv_len=1024, num_heads=8, head_dim=128
    ),
    "moe": lambda: perfatlas.kernel_moe(
        system="h200_sxm", tokens=64, hidden=4096, intermediate=1536, experts=128, top_k=8
    ),
    "elementwise": lambda: perfatlas.kernel_op(
        "elementwise", system="h200_sxm", op="activation", tokens=4096, width=8192
    ),
}


def _charts(answer: Answer | AnsweredRun, **beside: Any) -> dict[str, Drawing]:  # noqa: ANN401
    return dict(page_of(answer.command)(answer.to_dict(), reproduce="", **beside).charts())


def test_a_step_by_operator_adds_up_to_its_time() -> None:
    answer = perfatlas.estimate(**MODEL)
    chart = _charts(answer)["Decode step by operator"]
    assert isinstance(chart, StackedBars)
    rows = [row for row in answer.breakdown if row["phase"] == "decode"]
    total_s = sum(row["time_s"] for row in rows)
    assert (chart.values.unit, "share" in chart.values.title) == ("%", True)
    assert [name.split(",")[0] for name in chart.names] == [row["name"] for row in rows]
    for place, row in enumerate(rows):
        assert sum(part.values[place] for part in chart.parts) == row["time_s"] / total_s
        (own,) = (part.name for part in chart.parts if part.values[place])
        assert own == row["bound"]
    assert total_s == pytest.approx(answer.results["tpot_s"], rel=1e-9)


def test_points_of_a_roofline_are_operators_below_the_ceilings() -> None:
    answer = perfatlas.estimate(**MODEL, batch=64)
    chart = _charts(answer)["Roofline"]
    assert isinstance(chart, LineChart)
    memory, compute, *groups = chart.lines
    bandwidth, peak = memory.y[0] / memory.x[0], compute.y[0]
    assert (bandwidth, peak) == pytest.approx((4.8e12, 989.5e12), rel=1e-3)
    drawn = {
        (group.name, name): (x, y)
        for group in groups
        for name, x, y in zip(group.texts, group.x, group.y, strict=True)
    }
    rows = [row for row in answer.breakdown if row["flop"] and row["memory_bytes"]]
    assert drawn == {
        (row["phase"], row["name"]): (
            row["flop"] / row["memory_bytes"],
            row["flop"] / row["time_s"],
        )
        for row in rows
    }
    for x, y in drawn.values():
        assert y <= min(peak, bandwidth * x) * (1 + 1e-9)


def test_memory_of_a_gpu_adds_up_to_its_capacity() -> None:
    answer = perfatlas.estimate(**MODEL)
    chart = _charts(answer)["Memory of a GPU"]
    assert isinstance(chart, StackedBars)
    amounts = {part.name: part.values[0] for part in chart.parts}
    assert amounts["weights"] == pytest.approx(answer.results["memory"]["weights_bytes"])
    assert sum(amounts.values()) == pytest.approx(answer.results["memory"]["capacity_bytes"])


@pytest.mark.parametrize("operator", KERNELS)
def test_a_curve_of_sizes_passes_through_the_operator(operator: str) -> None:
    answer = KERNELS[operator]()
    charts = _charts(answer)
    chart = next(one for title, one in charts.items() if title.startswith("Time by "))
    assert isinstance(chart, LineChart)
    time, bound, asked = chart.lines
    place = list(time.x).index(asked.x[0])
    results = answer.results
    assert time.y[place] == pytest.approx(results["time_s"], rel=1e-12)
    assert (time.low[place], time.high[place]) == pytest.approx(
        (results["time_s_low"], results["time_s_high"]), rel=1e-12
    )
    assert bound.y[place] == pytest.approx(results["bound_time_s"], rel=1e-12)
    assert ("Roofline" in charts) is bool(results["flop"])
    if roofline := charts.get("Roofline"):
        assert isinstance(roofline, LineChart)
        assert roofline.lines[-1].y == [results["flop"] / results["time_s"]]


def test_a_collective_is_drawn_by_algorithm_and_never_mixes_them() -> None:
    asked: dict[str, Any] = {"system": "h200_sxm", "op": "all_reduce", "gpus": 8}
    answer = perfatlas.collective(**asked, bytes=2**20)
    chart = _charts(answer)["Bus bandwidth by message size"]
    assert isinstance(chart, LineChart)
    *lines, mark = chart.lines
    assert mark.y == [answer.results["bus_bandwidth_bytes_per_s"]]
    assert len({line.name for line in lines}) > 1
    for line in lines:
        one = perfatlas.collective(**asked, bytes=int(line.x[-1])).results
        assert line.name == one["algorithm"]
        assert line.y[-1] == pytest.approx(one["bus_bandwidth_bytes_per_s"], rel=1e-12)
        assert line.low[-1] < line.y[-1] < line.high[-1]


def test_a_frontier_names_its_one_plan_and_has_its_intervals() -> None:
    answer = perfatlas.frontier(**MODEL, gpus=8, tp=2, isl=64, osl=8)
    (chart,) = _charts(answer).values()
    assert isinstance(chart, LineChart)
    (line,) = chart.lines
    assert line.name == f"{MODEL['model']} on {MODEL['system']}, tp 2, dp 4"
    assert line.texts[0] == "batch 1"
    for detail, row in zip(line.details, answer.results["frontier"], strict=True):
        told = f"batch {row['batch']:,}, TTFT {format_value('ttft_s', row['ttft_s'])}, TPOT "
        assert detail == f"tp 2, dp 4, {told}{format_value('tpot_s', row['tpot_s'])}"
    lows = [row["output_tokens_per_s_per_gpu_low"] for row in answer.results["frontier"]]
    assert line.low == lows


def test_waiting_time_passes_through_the_spares() -> None:
    asked: dict[str, Any] = {"nodes": 2048, "node_mtbf_s": 1.3e7, "repair_s": 86400.0}
    answer = perfatlas.goodput_spares(**asked, target=0.999)
    (chart,) = _charts(answer).values()
    assert isinstance(chart, LineChart)
    line, mark, target = chart.lines
    spares = answer.results["spares"]
    assert line.y[spares] == mark.y[0] == answer.results["blocked_probability"]
    fewer = perfatlas.goodput_spares(**asked, spares=spares - 1)
    assert line.y[spares - 1] == fewer.results["blocked_probability"] > target.y[0]


def _study(**vary: list[Any]) -> dict[str, Any]:
    return {
        "verb": "kernel gemm",
        "objective": "time_s",
        "scenario": {
            name: value
            for name, value in {"system": "h200_sxm", "m": 64, "n": 512, "k": 512}.items()
            if name not in vary
        },
        "vary": vary,
    }


def test_a_sweep_of_one_number_is_a_curve_and_of_two_a_heat_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    found = perfatlas.sweep(_study(m=[1, 64, 512], format=["bf16", "fp8"]), jobs=1)
    (curves,) = _charts(found, columns=found.columns).values()
    assert isinstance(curves, LineChart)
    assert [line.name for line in curves.lines] == ["bf16", "fp8"]
    kept = [row for row, name in enumerate(found.columns["format"]) if name == "fp8"]
    assert list(curves.lines[1].y) == [found.columns["time_s"][row] for row in kept]
    assert curves.lines[1].low
    sizes = [128, 256, 384, 512, 640, 768, 896]
    found = perfatlas.sweep(_study(n=sizes, k=sizes), jobs=1)
    ((title, cells),) = _charts(found, columns=found.columns).items()
    assert title == "time by n and k"
    assert isinstance(cells, HeatMap)
    rows = zip(*(found.columns[name] for name in ("n", "k", "time_s")), strict=True)
    times = {(n, k): time_s for n, k, time_s in rows}
    assert cells.cells == [[times[n, k] for n in sizes] for k in sizes]
    assert str(runs_folder()).startswith(str(tmp_path))


def test_a_chart_of_a_sweep_says_what_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    found = perfatlas.sweep(_study(n=list(range(128, 6272, 128)), k=list(range(128, 1152, 128))))
    page = page_of("sweep")(found.to_dict(), found.columns, reproduce="")
    (chart, note), *_ = (section.blocks for section in page.shown if section.blocks)
    assert isinstance(chart.figure, HeatMap)
    assert note.startswith("320 of 384 rows are drawn")
