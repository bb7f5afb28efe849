"""Values as people write them: the command line, Python and tables read them alike."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import perfatlas
from perfatlas.cli import main
from perfatlas.declarations import verb_fields
from perfatlas.quantities import InvalidSpecError, PerfatlasError

REDUCED: dict[str, Any] = {"system": "h200_sxm", "op": "all_reduce", "bytes": 65536, "gpus": 8}
MODEL: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"}


def time_s(**fields: Any) -> float:  # noqa: ANN401 - fields of a collective
    return float(perfatlas.collective(**{**REDUCED, **fields}).results["time_s"])


@pytest.mark.parametrize(
    "written",
    [
        {"bytes": "64K"},
        {"bytes": "64k"},
        {"bytes": "0.0625M"},
        {"bytes": "64KiB"},
        {"op": "ALL_REDUCE"},
        {"op": "All-Reduce"},
        {"gpus": "8.0", "nodes": 1},
        {"gpus": 8.0},
        {"tier": "AUTO"},
    ],
)
def test_the_same_value_written_otherwise(written: dict[str, Any]) -> None:
    assert time_s(**written) == time_s()


def test_sizes_with_a_unit_keep_its_meaning() -> None:
    assert time_s(bytes="8MB") == time_s(bytes=8e6) != time_s(bytes="8M")


@pytest.mark.parametrize(
    ("verb", "name", "thousand"),
    [
        ("goodput", "gpus", 1000),
        ("goodput", "spares", 1000),
        ("goodput spares", "nodes", 1000),
        ("fleet schedule", "num_jobs", 1000),
        ("simulate", "num_requests", 1000),
        ("simulate", "concurrency", 1000),
        ("search", "max_gpus", 1000),
        ("collective", "gpus", 1000),
        ("train", "dp", 1000),
        ("estimate", "isl", 1024),
        ("simulate", "shared_prefix", 1024),
        ("estimate", "max_num_batched_tokens", 1024),
        ("train", "sequence_length", 1024),
        ("goodput", "tokens_per_step", 1024),
        ("kernel gemm", "m", 1024),
        ("kernel moe", "hidden", 1024),
    ],
)
def test_things_are_counted_in_thousands_and_tokens_as_in_vllm(
    verb: str, name: str, thousand: int
) -> None:
    number = verb_fields(verb)[name].number
    assert number is not None
    assert number.read("1K") == thousand
    assert (number.read("1k"), number.read("1Ki"), number.read("2.5k")) == (1000, 1024, 2500)
    assert number.read("16M") == 16 * thousand**2
    with pytest.raises(ValueError, match="4k"):
        number.read("16 MB")


@pytest.mark.parametrize("written", ["15T", "15t", "15_000B", "15000 B", "15e12", "15,000,000M"])
def test_a_token_budget_is_decimal(written: str) -> None:
    tokens = verb_fields("goodput")["tokens"].number
    assert tokens is not None
    assert tokens.read(written) == 15e12
    with pytest.raises(ValueError, match='such as 15e12, "15T"'):
        tokens.read("15 TB")


def test_the_library_is_known_in_any_case() -> None:
    assert time_s(kernel_family="NCCL") == time_s(kernel_family="nccl") != time_s()


def test_ratios_that_are_no_fractions_may_be_in_per_cent() -> None:
    asked: dict[str, Any] = {"system": "h200_sxm", "m": 4096, "n": 4096, "k": 4096}
    slow = perfatlas.kernel_gemm(**asked, clock_ratio="90%").results
    assert slow == perfatlas.kernel_gemm(**asked, clock_ratio=0.9).results
    rows = verb_fields("simulate")
    percentile, spread = rows["slo_percentile"].number, rows["length_spread"].number
    assert percentile is not None
    assert spread is not None
    assert (percentile.read("90%"), percentile.read("99.9"), spread.read("150%")) == (90, 99.9, 1.5)
    with pytest.raises(ValueError, match="a percentage such as 90"):
        percentile.read("90 s")


@pytest.mark.parametrize("written", [90, "90"], ids=["number", "text"])
def test_a_fraction_written_in_per_cent_is_not_taken_for_ninety(written: object) -> None:
    told = r'load = 90.*: 90 is 9,000%; for 90% write 0\.9 or "90%"'
    with pytest.raises(InvalidSpecError, match=told.replace("= 90", "= '?90")):
        perfatlas.fleet_schedule(num_jobs=3, nodes=2, load=written)  # type: ignore[arg-type]
    assert perfatlas.fleet_schedule(num_jobs=3, nodes=2, load=1.5).results["jobs"] == 3


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["--isl", "-4k"], {"isl": "-4k"}),
        (["--isl=-4k"], {"isl": -4000}),
        (["--batch", "8.5"], {"batch": "8.5"}),
        (["--isl", "1e3", "--batch", "8.0"], {"isl": "1e3", "batch": "8.0"}),
    ],
)
def test_the_command_line_and_python_agree(
    words: list[str], fields: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        perfatlas.estimate(**MODEL, **fields)
        refused = False
    except PerfatlasError:
        refused = True
    model = [word for name, value in MODEL.items() for word in (f"--{name}", value)]
    assert bool(main(["estimate", *model, *words])) == refused
    assert "requires an argument" not in capsys.readouterr().err


def test_versions_in_a_table_stay_text(tmp_path: Path) -> None:
    rows, answers = tmp_path / "rows.csv", tmp_path / "answers.csv"
    rows.write_text("silicon_version\n0.19\n0.10\n", "utf-8")
    told = ["--table", str(rows), "--output", str(answers), "--tier", "Measured"]
    assert main(["collective", "--system", "h200_sxm", "--op", "all_reduce", "--bytes", "1M",
                 "--gpus", "8", *told]) == 0  # fmt: skip
    rows.write_text("silicon_version\n0.19\n", "utf-8")
    assert main(["collective", "--system", "h200_sxm", "--op", "all_reduce", "--bytes", "1M",
                 "--gpus", "8", *told]) == 0  # fmt: skip
    with answers.open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert "expected text" not in row["error"]


@pytest.mark.parametrize("field", ["ep", "moe_tp"])
def test_a_dense_model_takes_the_sizes_of_experts_that_change_nothing(field: str) -> None:
    one: dict[str, Any] = {field: 1}
    two: dict[str, Any] = {field: 2}
    plain = perfatlas.estimate(**MODEL).results
    assert perfatlas.estimate(**MODEL, **one).results == plain
    table = {name: [value] for name, value in {**MODEL, **one}.items()}
    assert perfatlas.estimate_table(table).columns["error"] == [""]
    with pytest.raises(InvalidSpecError, match=field):
        perfatlas.estimate(**MODEL, **two)
