"""`kernel op norm`, `softmax`, `embedding` and `elementwise`: their bytes and times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import perfatlas
from perfatlas.cli import main
from perfatlas.quantities import InvalidSpecError

ASKED: dict[str, Any] = {"system": "h200_sxm", "tokens": 4096, "width": 4096}
LAYER: dict[str, Any] = {"kind": "layer", "residual": "excluded"}
GROUPS: dict[str, Any] = {"kind": "group", "batch": 128}
# bytes by hand: 2-byte activations of 4096 rows of 4096, and what is cold
MIB: int = 1 << 20
BYTES: list[tuple[str, dict[str, Any], float, float]] = [
    # the input and the residual are read, the norm and the residual written
    ("norm", {}, 4 * 32 * MIB, 4096 * 2),
    ("norm", {"kind": "layer"}, 4 * 32 * MIB, 4096 * 4),  # scale and bias
    ("norm", {"residual": "excluded"}, 2 * 32 * MIB, 4096 * 2),
    ("norm", {"kind": "group"}, 3 * 32 * MIB, 4096 * 4),  # read for statistics, and again
    ("norm", {"kind": "batch"}, 2 * 32 * MIB, 4096 * 8),  # scale, bias, mean and variance
    ("softmax", {}, 2 * 32 * MIB, 0),
    # gate and up are read, their product written
    ("elementwise", {"op": "activation"}, 3 * 32 * MIB, 0),
    ("elementwise", {"op": "quantize"}, 48 * MIB, 0),
    ("elementwise", {"op": "sampling"}, 32 * MIB + 4096 * 4, 0),
    ("embedding", {}, 32 * MIB, 32 * MIB),
    ("embedding", {"ids": 27}, 32 * MIB, 27 * 32 * MIB),  # a bag writes one row
    ("embedding", {"ids": 27, "rows": 1024}, 32 * MIB, 8 * MIB),  # the whole table
]


@pytest.mark.parametrize(("operator", "fields", "activations", "cold"), BYTES)
def test_bytes_by_hand(
    operator: str, fields: dict[str, Any], activations: float, cold: float
) -> None:
    results = perfatlas.kernel_op(operator, **ASKED, **fields).results
    assert (results["activation_bytes"], results["cold_bytes"]) == (activations, cold)
    assert results["time_s"] >= results["bound_time_s"]
    assert results["bytes_per_s"] < 4.8e12  # of the memory


def test_the_operator_follows_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--system", "h200_sxm", "--tokens", "64", "--width", "768"]
    assert main(["kernel", "op", "elementwise", "quantize", *words]) == 0
    assert f"perfatlas kernel op elementwise quantize {' '.join(words)}" in capsys.readouterr().out
    for asked, message in (
        (["--op", "norm"], "Unknown option: --op"),
        ([], "missing OP"),
        (["tanh"], "Choose from"),
    ):
        assert main(["kernel", "op", "elementwise", *asked, *words]) == 2
        assert message in capsys.readouterr().err


def test_an_unknown_operator_is_refused_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["kernel", "op", "nrom"]) == 2
    assert 'Did you mean "norm"?' in capsys.readouterr().err
    with pytest.raises(InvalidSpecError, match=r"'sofmax'.*'softmax'"):
        perfatlas.kernel_op("sofmax", **ASKED)


def test_a_rotary_embedding_appends_to_the_cache() -> None:
    asked = {**ASKED, "op": "rope_and_cache", "kv_width": 2048}
    wide = perfatlas.kernel_op("elementwise", **asked).results
    narrow = perfatlas.kernel_op("elementwise", **asked, kv_format="fp8").results
    assert wide["activation_bytes"] == 4096 * (2 * 4096 * 2 + 2 * 2048 * 2)
    assert wide["activation_bytes"] - narrow["activation_bytes"] == 4096 * 2048


def test_a_step_prices_the_same_operators() -> None:
    # Llama-3.1-8B: 32 query heads and 8 KV heads of 128, hidden 4096, intermediate 14336
    step = perfatlas.estimate(
        model="meta-llama/Llama-3.1-8B", system="h200_sxm", batch=64, isl=512, osl=4, engine="ideal"
    )
    rows = {row["name"]: row for row in step.breakdown if row["phase"] == "decode"}
    alone: dict[str, Any] = {
        "activation": {"op": "activation", "width": 14336},
        "rope_and_cache": {"op": "rope_and_cache", "width": 4096, "kv_width": 2048},
    }
    for name, fields in alone.items():
        found = perfatlas.kernel_op("elementwise", system="h200_sxm", tokens=64, **fields).results
        assert rows[name]["time_s"] / rows[name]["count"] == pytest.approx(
            found["time_s"], rel=0.05
        )


# Rows of measurements/{h100,h200}_sxm/2026-11-26_operators, in seconds on an H100 and an H200.
MEASURED: list[tuple[str, dict[str, Any], tuple[float, float]]] = [
    ("softmax", {"tokens": 16384, "width": 8192}, (520.9e-6, 521.2e-6)),
    ("norm", {"tokens": 64, "width": 8192, **LAYER}, (14.92e-6, 15.00e-6)),
    ("norm", {"tokens": 16384, "width": 8192, **LAYER}, (283.1e-6, 283.1e-6)),
    ("norm", {"tokens": 128 * 56 * 56, "width": 64, **GROUPS}, (140.3e-6, 140.3e-6)),
    ("norm", {"tokens": 128**2, "width": 1280, "kind": "group"}, (598.2e-6, 598.2e-6)),
    ("norm", {"tokens": 128 * 56 * 56, "width": 64, "kind": "batch"}, (72.3e-6, 72.3e-6)),
    ("embedding", {"tokens": 65536, "width": 128, "rows": 10**6}, (41.50e-6, 41.68e-6)),
    ("embedding", {"tokens": 8192, "width": 128, "rows": 10**6}, (6.655e-6, 6.700e-6)),
    ("embedding", {"tokens": 65536, "width": 128, "rows": 10**6, "ids": 27}, (491.0e-6, 487.6e-6)),
    ("embedding", {"tokens": 8192, "width": 128, "rows": 10**6, "ids": 27}, (66.98e-6, 66.58e-6)),
]


@pytest.mark.parametrize(("operator", "fields", "measured_s"), MEASURED)
def test_kernels_of_pytorch_take_what_was_measured(
    operator: str, fields: dict[str, Any], measured_s: tuple[float, float]
) -> None:
    for system, time_s in zip(("h100_sxm", "h200_sxm"), measured_s, strict=True):
        answer = perfatlas.kernel_op(operator, system=system, **fields)
        found = answer.results
        assert found["time_s_low"] < time_s < found["time_s_high"]
        assert found["time_s"] == pytest.approx(time_s, rel=0.3)
        assert any("rates of an H100" in one for one in answer.evidence.assumptions)


def test_a_graph_prices_a_softmax_as_its_verb(tmp_path: Path) -> None:
    path = tmp_path / "softmax.toml"
    elements = 16384 * 8192
    text = f'{{ kind = "softmax", read = {elements}, row = 8192 }}'
    path.write_text(
        f'name = "softmax"\nitem = "pass"\nparameters = 1\noperators = [{text}]\n', encoding="utf-8"
    )
    graph = perfatlas.estimate(model=str(path), system="h100_sxm", engine="pytorch", batch=1)
    (row,) = [one for one in graph.breakdown if one["stream"] == "compute"]
    alone = perfatlas.kernel_op("softmax", system="h100_sxm", tokens=16384, width=8192).results
    assert alone["time_s"] == pytest.approx(0.87 * row["time_s"])  # pass_speed of Hopper


def test_rows_that_are_looked_up_again_pass_the_cache() -> None:
    asked: dict[str, Any] = {"system": "h100_sxm", "tokens": 65536}
    small = perfatlas.kernel_op("embedding", **asked, width=128, ids=100, rows=10).results
    assert 65536 * 100 * 256 / small["time_s"] < 5.1e12  # of the L2 cache
    # 27 x 65,536 lookups of rows of 8 KiB: those of a small table come from the L2 cache
    wide = [
        perfatlas.kernel_op("embedding", **asked, width=4096, ids=27, rows=rows).results
        for rows in (1000, 10**6)
    ]
    moved = 65536 * 27 * 8192
    assert moved / wide[0]["time_s"] < 5.1e12
    assert moved / wide[1]["time_s"] < 3.35e12  # of the memory
    assert wide[1]["cold_bytes"] == 10**6 * 8192  # a row once, in the roofline
