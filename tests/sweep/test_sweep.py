"""Sweeps: their rows are those of tables, their counts add up, names are checked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import perfatlas
from perfatlas.cli import main
from perfatlas.declarations import verb_fields
from perfatlas.files import read_table, write_table
from perfatlas.quantities import PerfatlasError, UsageError
from perfatlas.studies import find_run
from tests.sweep.support import GEMM

MODEL = "meta-llama/Llama-3.1-8B"
ESTIMATE: dict[str, Any] = {
    "verb": "estimate",
    "scenario": {"model": MODEL, "system": "h200_sxm", "osl": 64},
    "vary": {
        "tp": [1, 2],
        "batch": [1, 64, 4096],
        "device": {"memory": {"bandwidth": ["4TB/s", 6e12]}},
    },
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_rows_are_those_of_a_table(tmp_path: Path) -> None:
    found = perfatlas.sweep(ESTIMATE, jobs=1).columns
    rates = ["4000000000000.0", "6000000000000.0"]
    rows = {
        "model": [MODEL] * 12,
        "osl": [64] * 12,
        "tp": [1] * 6 + [2] * 6,
        "batch": [1, 1, 64, 64, 4096, 4096] * 2,
        "system": [f"h200_sxm{{device.memory.bandwidth={rate}}}" for rate in rates] * 6,
    }
    write_table(tmp_path / "in.parquet", rows)
    files = ("--table", str(tmp_path / "in.parquet"), "--output", str(tmp_path / "out.parquet"))
    assert main(["estimate", *files]) == 0
    table = read_table(tmp_path / "out.parquet")
    names = [name for name in table.columns if name not in rows]
    assert len(names) > 30
    assert {name: found[name] for name in names} == {name: table.cells(name) for name in names}
    assert found["device.memory.bandwidth"] == [4e12, 6e12] * 6
    assert [code or "" for code in found["error_code"]].count("infeasible") == 4


@pytest.mark.parametrize(
    ("verb", "scenario", "vary"),
    [
        (
            "kernel attention",
            "phase=decode num_heads=8 num_kv_heads=1 head_dim=128 kv_len=4096",
            "batch=1,8",
        ),
        ("kernel moe", "hidden=4096 intermediate=1536 experts=128 top_k=8", "tokens=1,64"),
        ("collective", "op=all_reduce gpus=8", "bytes=1MB,8MB"),
        ("goodput", "gpus=16384 mtti_s=11134 restart_s=300", "checkpoint_write_s=30,60"),
        ("goodput spares", "nodes=2048 node_mtbf_s=1.3e7 repair_s=86400", "spares=4,8"),
        ("fleet schedule", "load=0.5 nodes=16", "num_jobs=20,40"),
        ("simulate", f"model={MODEL} request_rate=4 num_requests=20 isl=64", "osl=8,16"),
        ("train", f"model={MODEL} gpus=8 tp=8 sequence_length=1024", "global_batch=8,16"),
    ],
)
def test_every_verb_with_tables_can_be_swept(verb: str, scenario: str, vary: str) -> None:
    pairs = [item.split("=") for item in scenario.split()]
    fixed: dict[str, Any] = {name: _plain(value) for name, value in pairs}
    if "system" in verb_fields(verb) and not verb.startswith("goodput"):
        fixed |= {"system": "h200_sxm"}
    name, _, values = vary.partition("=")
    study = {"verb": verb, "scenario": fixed, "vary": {name: [*map(_plain, values.split(","))]}}
    found = perfatlas.sweep(study, jobs=1)
    assert found.results["answered"] == found.results["points"] == 2, found.results["refusals"]
    assert len(found.columns["point"]) == 2


def _plain(text: str) -> Any:  # noqa: ANN401 - a TOML value
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_counts_of_points_add_up_and_the_best_row_meets_all_constraints() -> None:
    study = ESTIMATE | {
        "objective": "tokens",
        "constraints": ["batch * tp <= 4096", "tp == 1 or batch < 64", "tpot_s < 0.003"],
        "derived": {"concurrency_told": "batch * tp", "tokens": "batch / tpot_s"},
    }
    found = perfatlas.sweep(study, jobs=1)
    counts, columns = found.results, found.columns
    assert counts["left_out"] == {"batch * tp <= 4096": 2, "tp == 1 or batch < 64": 2}
    assert counts["rows"] + sum(counts["left_out"].values()) == counts["points"] == 12
    assert counts["answered"] + counts["failed"] == counts["rows"] == 8
    assert sum(row["count"] for row in counts["refusals"]) == counts["failed"] == 2
    assert columns["concurrency_told"] == [1, 1, 64, 64, 4096, 4096, 2, 2]
    met = [
        p for p, good in zip(columns["point"], columns["meets_constraints"], strict=True) if good
    ]
    assert counts["not_met"]["tpot_s < 0.003"] == counts["answered"] - len(met) > 0
    by_hand = {
        point: batch / tpot
        for point, batch, tpot in zip(
            *(columns[name] for name in ("point", "batch", "tpot_s")), strict=True
        )
        if point in met
    }
    ranked = sorted(by_hand, key=lambda point: -by_hand[point])
    assert [row["point"] for row in counts["best"]] == ranked
    assert counts["best"][0]["tokens"] == by_hand[ranked[0]]


def test_a_derived_field_is_asked() -> None:
    study = {**GEMM, "vary": {"m": [64, 128]}, "scenario": {"system": "h200_sxm", "n": 4096}}
    columns = perfatlas.sweep({**study, "derived": {"k": "4 * m"}}, jobs=1).columns
    alone = [
        perfatlas.kernel_gemm(system="h200_sxm", n=4096, m=m, k=4 * m).results["time_s"]
        for m in (64, 128)
    ]
    assert columns["time_s"] == alone


def test_samples_are_crossed_and_zipped_names_vary_together() -> None:
    study = {
        "verb": "kernel gemm",
        "scenario": {"system": "h200_sxm"},
        "zip": [{"n": [1024, 4096], "k": [512, 8192]}],
        "sample": {
            "method": "sobol",
            "points": 8,
            "seed": 3,
            "vary": {
                "m": {"from": 1, "to": 4096, "scale": "log"},
                "device.memory.bandwidth": {"from": "4TB/s", "to": "8TB/s"},
            },
        },
    }
    columns = perfatlas.sweep(study, jobs=1).columns
    assert columns["n"] == [1024, 4096] * 8
    assert columns["k"] == [512, 8192] * 8
    assert columns["m"][::2] == columns["m"][1::2]
    assert len(set(columns["device.memory.bandwidth"])) == 8
    assert all(4e12 <= rate <= 8e12 for rate in columns["device.memory.bandwidth"])


def test_ranges_have_steps_or_a_distance() -> None:
    study = {**GEMM, "scenario": {"system": "h200_sxm", "k": 512}}
    study["vary"] = {
        "m": {"from": 1, "to": 64, "steps": 7, "scale": "log"},
        "n": {"from": 128, "to": 600, "step": 128},
    }
    columns = perfatlas.sweep(study, jobs=1).columns
    assert sorted(set(columns["m"])) == [2**power for power in range(7)]
    assert sorted(set(columns["n"])) == [128, 256, 384, 512]


def test_dimensions_of_models_vary_and_are_solved_at_equal_parameters() -> None:
    solved = f"{MODEL}{{equal=parameters,solve=intermediate_size}}"
    study = {
        "verb": "estimate",
        "scenario": {"model": solved, "system": "h200_sxm", "osl": 64, "batch": 32},
        "vary": {"model": {"kv_heads": [2, 8], "layers": [24, 32]}},
    }
    columns = perfatlas.sweep(study, jobs=1).columns
    assert columns["model.kv_heads"] == [2, 2, 8, 8]
    assert columns["memory_kv_bytes"][0] == columns["memory_kv_bytes"][3] * 3 / 16
    weights = columns["memory_weights_bytes"]
    assert max(weights) == pytest.approx(min(weights), rel=0.01)
    alone = perfatlas.estimate(
        model=f"{MODEL}{{kv_heads=2,layers=24,equal=parameters,solve=intermediate_size}}",
        system="h200_sxm",
        osl=64,
        batch=32,
    )
    assert columns["tpot_s"][0] == alone.results["tpot_s"]


def test_runs_are_listed_shown_exported_and_deleted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    first = perfatlas.sweep({**ESTIMATE, "name": "first"}, jobs=1)
    other = {**ESTIMATE, "name": "second", "vary": {**ESTIMATE["vary"], "batch": [64, 128]}}
    other["scenario"] = {**ESTIMATE["scenario"], "clock_ratio": 0.5}
    second = perfatlas.sweep(other, jobs=1)
    names = [first.run.id, second.run.id]
    assert main(["runs", "list", "--json"]) == 0
    rows = told(capsys)["results"]["runs"]
    assert sorted(row["id"] for row in rows) == sorted(names)
    assert {row["state"] for row in rows} == {"complete"}
    (home / "perfatlas" / "runs" / "index.sqlite").unlink()  # it is made again from the folders
    assert main(["runs", "list", "--json"]) == 0
    assert told(capsys)["results"]["runs"] == rows
    assert main(["runs", "show", "first"]) == 0  # the beginning of an id
    shown = capsys.readouterr().out
    assert "estimate at 12 points" in shown
    assert "scenario.model" in shown
    for suffix in ("csv", "jsonl", "parquet"):
        path = tmp_path / f"rows.{suffix}"
        assert main(["runs", "export", names[0], "--output", str(path)]) == 0
        assert read_table(path).cells("ttft_s") == first.columns["ttft_s"]
        capsys.readouterr()
    assert main(["runs", "rm", *names]) == 0
    assert not [path for path in (home / "perfatlas" / "runs").iterdir() if path.is_dir()]
    assert main(["runs", "list"]) == 0
    assert "no runs" in capsys.readouterr().out
    assert main(["runs", "show", names[0]]) == 3


def test_an_unknown_run_is_compared_with_the_names_of_others() -> None:
    run = perfatlas.sweep({**ESTIMATE, "name": "bandwidth"}, jobs=1).run
    with pytest.raises(PerfatlasError, match=f"did you mean '{run.id}'"):
        find_run("bandwith" + run.id.removeprefix("bandwidth"))
    longer = perfatlas.sweep({**ESTIMATE, "name": "bandwidth2"}, jobs=1).run
    assert find_run("bandwidth").id == run.id  # the name of one, the beginning of two
    assert find_run("bandwidth2").id == longer.id
    with pytest.raises(UsageError, match="no effect without --executor dask"):
        perfatlas.sweep(ESTIMATE, scheduler="tcp://127.0.0.1:1")


def test_best_rows_are_ratios_to_their_base(capsys: pytest.CaptureFixture[str]) -> None:
    study = {**ESTIMATE, "base": {"device": {"memory": {"bandwidth": "4TB/s"}}}}
    found = perfatlas.sweep(study, jobs=1)
    rates = found.columns["output_tokens_per_s_per_gpu"]
    for row in found.results["best"]:
        # bandwidth varies fastest: the base of an odd point is the one before it
        assert row["ratio_to_base"] == rates[row["point"]] / rates[row["point"] // 2 * 2]
    ratios = {row["point"] % 2: row["ratio_to_base"] for row in found.results["best"]}
    assert ratios[0] == 1.0
    assert 1.0 < ratios[1] <= 1.5  # no more than the bandwidth
    assert "ratio_to_base" not in perfatlas.sweep(ESTIMATE, jobs=1).results["best"][0]
    assert main(["sweep", "exponentials"]) == 0
    assert "1.22x" in capsys.readouterr().out
