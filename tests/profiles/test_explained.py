"""Samples made by hand: every figure is worked out here."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest

from perfatlas.profiles import compared, explain, import_profile, read_rules
from perfatlas.profiles.explanation.results import OperatorRow
from perfatlas.profiles.join import MeasuredOperator, Prediction
from perfatlas.quantities import InvalidSpecError
from perfatlas.report.pages import print_page
from perfatlas.report.text import open_terminal
from perfatlas.verbs.collective import collective
from perfatlas.verbs.kernel import kernel_gemm
from perfatlas.verbs.profile.blocks import profile_page
from tests.profiles.samples import (
    ALL_REDUCE,
    NCCL,
    NCU,
    NVBENCH,
    event,
    launch,
    nsys_database,
    trace,
    written,
)


def explained(*paths: Path) -> dict[str, Any]:
    return explain([import_profile(path) for path in paths], read_rules())


def operators(results: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in results["operators"] if row["class"] != "copy"}


def microseconds(results: dict[str, Any], *names: str) -> list[float]:
    return [round(results[name] * 1e6, 6) for name in names]


def test_a_trace_by_hand(tmp_path: Path) -> None:
    """Activities at 110-150, 140-170, 200-220, 230-240 and 260-270 µs."""
    results = explained(written(tmp_path / "t.json", trace()))
    assert microseconds(results, "wall_s", "busy_s", "idle_s") == [160.0, 100.0, 60.0]
    # the sum was launched 20 µs into the gap before it, the copy before its gap, the orphan unknown
    causes = ("idle_host_s", "idle_device_s", "idle_unknown_s")
    assert microseconds(results, *causes) == [20.0, 20.0, 20.0]
    assert microseconds(results, "communication_s", "exposed_communication_s") == [30.0, 20.0]
    assert [results[name] for name in ("kernels", "launches", "orphans")] == [4, 3, 1]
    shares = {
        row["class"]: (round(row["time_s"] * 1e6), row["kernels"]) for row in results["classes"]
    }
    assert shares == {
        "gemm": (40, 1),
        "communication": (30, 1),
        "elementwise": (20, 1),
        "copy": (10, 1),
        "other": (10, 1),
    }
    assert sum(row["share"] for row in results["classes"]) == pytest.approx(1.0)
    assert any("1 of 4 kernels (25%) have no launch record" in one for one in results["integrity"])


def test_operators_have_the_prices_of_kernel_and_collective(tmp_path: Path) -> None:
    results = explained(written(tmp_path / "t.json.gz", trace()))
    rows = operators(results)
    assert rows["aten::mm"]["shape"] == "m=64 n=256 k=128 bf16"
    gemm = kernel_gemm(system="h100_sxm", m=64, n=256, k=128, format="bf16").results
    pairs = {
        "predicted_s": "time_s",
        "predicted_s_low": "time_s_low",
        "predicted_s_high": "time_s_high",
        "roofline_s": "bound_time_s",
    }
    assert {name: rows["aten::mm"][name] for name in pairs} == {
        name: gemm[other] for name, other in pairs.items()
    }
    reduced = collective(
        system="h100_sxm", op="all_reduce", bytes=2 << 20, gpus=8, kernel_family="nccl"
    ).results
    assert rows["all_reduce"]["predicted_s"] == reduced["time_s"]
    # (2^16 + 1) x 1024 floats read, 2^16 x 1024 written, at 3.35 TB/s: more than any cache holds
    streamed = 4 * 1024 * (2 * 2**16 + 1) / 3.35e12
    assert rows["aten::add"]["roofline_s"] == pytest.approx(streamed, rel=0.2)
    assert rows["aten::add"]["predicted_s"] > rows["aten::add"]["roofline_s"]
    assert rows["my_kernel"]["predicted_s"] is None
    (copied,) = (row for row in results["operators"] if row["class"] == "copy")
    assert (copied["name"], copied["predicted_s"]) == ("aten::add", None)
    # 40 µs against a few: above the interval, so that the prediction would shorten the profile
    excess_s = rows["aten::mm"]["time_s"] - rows["aten::mm"]["predicted_s"]
    assert results["excess_s"] == pytest.approx(excess_s)
    assert results["shorter_share"] == pytest.approx(excess_s / results["wall_s"])


def test_ranks_are_added_and_missing_ones_reported(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{rank}.json", trace(rank, 4)) for rank in range(2)]
    one, two = explained(files[0]), explained(*files)
    assert two["kernels"] == 2 * one["kernels"]
    assert two["devices"] == 2
    assert two["busy_s"] == pytest.approx(one["busy_s"])
    assert operators(two)["aten::mm"]["count"] == 2
    assert any("2 of 4 ranks" in note for note in two["integrity"])
    same = explained(files[0], files[0])
    assert any("same rank" in note for note in same["integrity"])
    nameless = {name: one for name, one in trace().items() if name != "distributedInfo"}
    path = written(tmp_path / "nameless.json", nameless)
    assert any("are the same" in note for note in explained(path, path)["integrity"])
    assert not any("are the same" in note for note in explained(path)["integrity"])


def test_files_of_several_devices_are_refused(tmp_path: Path) -> None:
    """One device prices all operators of an answer."""
    other = trace() | {"deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X"}]}
    files = [written(tmp_path / "a.json", trace()), written(tmp_path / "b.json", other)]
    with pytest.raises(InvalidSpecError, match="MI300X, NVIDIA"):
        explained(*files)


def test_lower_limits_call_nothing_slower(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = explained(written(tmp_path / "t.json", trace()))
    measured = MeasuredOperator("aten::mm", 0, "", 1, 40e-6, None)
    assert OperatorRow(measured, Prediction(4e-6, 2e-6, 8e-6)).excess_s == pytest.approx(36e-6)
    assert OperatorRow(measured, Prediction(4e-6)).excess_s == 0.0
    limited = [row | {"predicted_s_high": None} for row in results["operators"]]
    told = results | {"excess_s": None, "shorter_share": None, "operators": limited}
    print_page(open_terminal(sys.stdout), profile_page({"results": told}, reproduce=""))
    assert "lower limits" in " ".join(capsys.readouterr().out.split())


def test_kernels_of_a_graph(tmp_path: Path) -> None:
    events = [
        launch("cudaGraphLaunch", 10.0, 1),
        launch("cudaGraphLaunch", 50.0, 2),
        event("kernel", "gemm_a", 20.0, 5.0, correlation=1),
        event("kernel", "gemm_b", 30.0, 5.0, correlation=1),
        event("kernel", "gemm_c", 5.0, 1.0, correlation=3),
        launch("cudaLaunchKernel", 9.0, 3),
    ]
    results = explained(written(tmp_path / "t.json", {"traceEvents": events}))
    told = " ".join(results["integrity"])
    assert "2 of 3 kernels ran in 1 graph" in told
    assert "graph launches without recorded kernels: 1" in told
    assert "before the call that launched them: 1, by up to 4 µs" in told
    # 6-20: launched at 10; 25-30: inside the graph
    assert microseconds(results, "idle_host_s", "idle_device_s", "idle_unknown_s") == [4, 10, 5]


def test_changes_between_profiles(tmp_path: Path) -> None:
    before = trace()
    after = copy.deepcopy(before)
    after["traceEvents"][8]["dur"] = 25.0
    after["traceEvents"][-1]["name"] = "other_kernel"
    now, then = (
        explained(written(tmp_path / name, content))
        for name, content in (("a.json", after), ("b.json", before))
    )
    changes = compared(now, then)
    first = changes["operators"][0]
    assert (first["name"], first["change"], round(first["change_s"] * 1e6)) == (
        *("aten::mm", "changed", -15),
    )
    kinds = {row["name"]: row["change"] for row in changes["operators"]}
    assert (kinds["other_kernel"], kinds["my_kernel"]) == ("added", "removed")
    assert sum(row["change_s"] for row in changes["classes"]) == pytest.approx(-15e-6)


def test_own_rules_come_first(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nclass = "moe"\nkernel = "^my_"\n')
    profile = import_profile(written(tmp_path / "t.json", trace()))
    results = explain([profile], read_rules(rules))
    assert operators(results)["my_kernel"]["class"] == "moe"


def test_nsight_systems_by_hand(tmp_path: Path) -> None:
    """GPU 0: 1-3, 5-6, 8-9 µs; GPU 1: 1-2, 4-5 µs, the last without a launch."""
    results = explained(nsys_database(tmp_path / "p.sqlite"))
    assert (results["device"], results["system"], results["devices"]) == (
        *("NVIDIA H200", "h200_sxm", 2),
    )
    assert [results[name] for name in ("kernels", "launches", "orphans")] == [5, 3, 1]
    assert microseconds(results, "wall_s", "busy_s", "kernel_s") == [6.0, 3.0, 6.0]
    # GPU 0: 3-5 launched at 3.5, 6-8 inside the graph; GPU 1: 2-4 unknown
    assert microseconds(results, "idle_host_s", "idle_device_s", "idle_unknown_s") == [
        0.25,
        0.75,
        2,
    ]
    # by the innermost range of the thread that launched; one text is in the table of strings
    assert {row["name"]: row["shape"] for row in results["operators"]} == {
        "aten::mm": "m=8 n=32 k=64",
        "cutlass::Kernel<gemm>": "",
        "elementwise_kernel": "",
    }
    assert operators(results)["cutlass::Kernel<gemm>"]["count"] == 2
    assert "Nsight Systems says: Some events were dropped." in " ".join(results["integrity"])


def test_tables_of_benchmarks_by_hand(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(NCU)
    ncu = explained(tmp_path / "p.csv")
    assert {name: row["time_s"] for name, row in operators(ncu).items()} == {
        "sm90_gemm": pytest.approx(1.40625e-3),
        "flash_fwd": pytest.approx(2e-6),
    }
    assert ncu["wall_s"] is None
    assert "1 duration could not be read" in ncu["integrity"]
    (tmp_path / "p.log").write_text(NCCL)
    nccl = explained(tmp_path / "p.log")
    (row,) = nccl["operators"]
    assert (row["name"], row["time_s"]) == ("all_reduce", pytest.approx(25e-6))
    asked = {"system": "h100_sxm", "op": "all_reduce", "bytes": 1 << 20, "gpus": 2}
    predicted = collective(**asked, kernel_family="nccl").results
    assert row["predicted_s"] == predicted["time_s"]
    assert "all_reduce: 3 values out of bounds" in nccl["integrity"]
    nvbench = explained(written(tmp_path / "p.json", NVBENCH))
    (row,) = nvbench["operators"]
    assert (row["name"], row["shape"], row["time_s"]) == ("copy_sweep", "T=U8", 2.5e-3)
    assert "1 state skipped or without a GPU time" in nvbench["integrity"]


def test_waiting_for_the_latest_rank_is_apart_from_transfer(tmp_path: Path) -> None:
    """All-reduces of 30 and 50 µs on one rank, 45 and 20 µs on the other, one of another group."""
    files = []
    for rank, times_us in enumerate(((30.0, 50.0), (45.0, 20.0))):
        of_two = {**ALL_REDUCE, "Group size": 2}
        events = [
            event("kernel", "ncclDevKernel_AllReduce", 100.0 * at, time_us, device=0, **of_two)
            for at, time_us in enumerate((*times_us, 10.0), 1 + rank)
        ]
        events[-1]["args"]["Group size"] = 8
        content = trace(rank, 2) | {"traceEvents": events}
        files.append(written(tmp_path / f"{rank}.json", content))
    results = explained(*files)
    assert microseconds(results, "communication_transfer_s") == [30.0 + 20.0]
    assert microseconds(results, "communication_wait_s") == [(15.0 + 30.0) / 2]
    assert explained(files[0])["communication_wait_s"] is None


def test_the_critical_path_of_a_trace_by_hand(tmp_path: Path) -> None:
    """Back from 270 µs: 10 of my_kernel, after the copy 20, 10, after the sum 10, 20, after its
    launch 10 and the host before it down to the first activity at 110 µs: 80."""
    results = explained(written(tmp_path / "t.json", trace()))
    shares = {row["part"]: round(160 * row["share"], 6) for row in results["critical_path"]}
    assert shares == {
        "host": 80.0,
        "launch": 40.0,
        "elementwise": 20.0,
        "copy": 10.0,
        "other": 10.0,
    }
