"""Kernels of the registry: numerics in Triton's interpreter, and compilation within budgets.

`make test-kernels` runs this file in an environment with PyTorch and Triton.
"""

from __future__ import annotations

import ast
import csv
import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfatlas.cli import main
from perfatlas.formats import get_format
from perfatlas.hardware import resolve_system
from perfatlas.lab import tune
from perfatlas.lab.kernels import designed_time_s, lab_kernel, lab_kernels, over_budget
from perfatlas.lab.kernels.casts import rounded
from perfatlas.lab.kernels.registry import Config
from perfatlas.lab.static import compile_triton, run_tool
from perfatlas.lab.static.kernel import Compiled
from perfatlas.lab.tune import loop
from perfatlas.lab.tune.object_time import as_compiled
from perfatlas.quantities import InvalidSpecError
from perfatlas.verbs.kernel import kernel_design_gemm

MISSING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
needs_triton = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
ROOT = Path(__file__).parents[3]
TARGETS = ["sm_90", "sm_100", "sm_103", "sm_120", "gfx942", "gfx950"]
KERNELS = list(lab_kernels())
# Matrix instructions of each target in PTX or AMD assembly, and kernels that need them.
MMA = {
    "sm_90": "wgmma.mma_async",
    "sm_100": "tcgen05.mma",
    "sm_103": "tcgen05.mma",
    "sm_120": "mma.sync",
    "gfx942": "v_mfma",
    "gfx950": "v_mfma",
}
PRODUCTS = [
    *("gemm", "grouped_gemm_fp8", "grouped_gemm_fp8_block"),
    *("attention", "attention_dkdv", "attention_dq", "decode_mla"),
]


@pytest.mark.parametrize("name", KERNELS)
def test_rows(name: str) -> None:
    row = lab_kernel(name)
    assert list(row.configs) == TARGETS
    tree = ast.parse(row.path.read_text("utf-8"))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    arguments = [one.arg for one in functions[row.function].args.args]
    assert arguments == list(row.arguments)
    declared = row.declared("sm_90")
    assert set(declared["signature"]) == set(arguments)
    for config in row.configs.values():
        assert 0 < config.registers <= 512
        assert config.spilled_bytes == 0


def test_formats_of_targets() -> None:
    row = lab_kernel("grouped_gemm_fp8")
    assert row.declared("sm_90")["signature"]["a"] == "*fp8e4nv"
    assert row.declared("gfx942")["signature"]["a"] == "*fp8e4b8"
    assert row.declared("sm_90")["aligned"][3:6] == ["routing.0", "routing.1", "routing.2"]
    assert row.declared("sm_90")["aligned"][-2:] == ["sizes.2", "sizes.3"]


def test_designs_of_a_tuner_are_declared() -> None:
    row = lab_kernel("gemm")
    design = Config(tile=(64, 128, 64, 8, 1, False), warps=4, stages=4)
    request = row.request("sm_80", design)  # the registry has no tile for it
    assert (request.path, request.target, request.function) == (row.path, "sm_80", "gemm")
    assert request.declared is not None
    asked = request.declared["gemm"]
    assert asked["constants"] == {"TILE": [64, 128, 64, 8, 1, False]}
    assert asked["options"] == {"num_warps": 4, "num_stages": 4}
    assert row.request("sm_90").declared == {"gemm": row.declared("sm_90")}


def test_unknown_kernels_and_targets_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidSpecError, match="did you mean 'gemm'"):
        lab_kernel("gemmm")
    assert main(["kernel", "inspect", "gemmm"]) == 3
    assert "did you mean 'gemm'" in capsys.readouterr().err
    assert main(["kernel", "inspect", "gemm", "--target", "sm_80"]) == 3
    assert "has no tile for sm_80" in capsys.readouterr().err


def test_budgets_by_hand() -> None:
    config = replace(lab_kernel("gemm").configs["sm_90"], registers=100, spilled_bytes=8)
    assert over_budget({"registers": 100, "spills_bytes": 8}, config) == []
    assert len(over_budget({"registers": 101, "spills_bytes": 12}, config)) == 2
    assert over_budget({"registers": 101, "spills_bytes": None}, config)[0].startswith("101 reg")


def test_measured_times_are_those_of_the_measurement() -> None:
    path = ROOT / "measurements/h100_sxm/2026-11-26_bench_run/kernels.csv"
    with path.open(encoding="utf-8") as table:
        times_s = {(row["case"], row["kernel"]): row["time_s"] for row in csv.DictReader(table)}
    records = [one for kernel in lab_kernels().values() for one in kernel.measured]
    assert len(records) == 8
    for one in records:
        assert one["time_s"] == float(times_s[one["case"], "perfatlas"])
        if "library" in one:
            assert one["library_s"] == float(times_s[one["case"], one["library"]])


def test_designs_are_those_of_kernel_design() -> None:
    device, shape = resolve_system("h100_sxm").device, {"m": 8192, "n": 8192, "k": 8192}
    tile = {"tile_m": 128, "tile_n": 256, "tile_k": 64, "stages": 3}
    asked = kernel_design_gemm(system="h100_sxm", **shape, **tile)
    assert designed_time_s("gemm", shape, "bf16", device) == asked.results["time_s"]
    assert designed_time_s("gemm", {**shape, "m": 8}, "bf16", device) is None
    assert designed_time_s("decode_attention", {}, "bf16", device) is None
    experts = {"tokens": 4096, "experts": 32, "top_k": 8, "n": 4096, "k": 7168}
    # 24 pairs among 32 experts: an expert that is chosen has one row
    for tokens, rows in ((4096, 1024), (3, 1)):
        asked = kernel_design_gemm(
            system="h100_sxm",
            m=rows,
            n=4096,
            k=7168,
            groups=32,
            format="fp8_block",
            tile_m=128,
            tile_n=128,
            tile_k=128,
            stages=3,
        )
        time_s = designed_time_s("grouped_gemm", experts | {"tokens": tokens}, "fp8_block", device)
        assert time_s == asked.results["time_s"]
    assert designed_time_s("gemm", shape, "bf16", resolve_system("mi300x").device) is None


@pytest.fixture(scope="module")
def errors() -> dict[str, list[dict[str, Any]]]:
    words = [sys.executable, "-m", "perfatlas.lab.kernels.numerics"]
    code, output, messages = run_tool(words)
    assert code == 0, messages
    rows = [json.loads(line) for line in output.splitlines()]
    return {name: [row for row in rows if row["kernel"] == name] for name in KERNELS}


@needs_triton
@pytest.mark.parametrize("name", KERNELS)
def test_numerics(name: str, errors: dict[str, list[dict[str, Any]]]) -> None:
    row = lab_kernel(name)
    assert len(errors[name]) == len(row.errors) * len(row.shapes)
    for found in errors[name]:
        assert found["error"] <= found["limit"], found  # NaN where an output is poisoned


@pytest.fixture(scope="module")
def compiled() -> dict[tuple[str, str], Compiled]:
    pairs = [(name, target) for name in KERNELS for target in TARGETS]
    requests = [lab_kernel(name).request(target) for name, target in pairs]
    return dict(zip(pairs, compile_triton(requests), strict=True))


@needs_triton
@pytest.mark.parametrize("name", KERNELS)
def test_registers_and_spills(name: str, compiled: dict[tuple[str, str], Compiled]) -> None:
    for target, config in lab_kernel(name).configs.items():
        (kernel,) = compiled[name, target].kernels
        assert (kernel.function, kernel.target) == (lab_kernel(name).function, target)
        facts = {"registers": kernel.registers, "spills_bytes": kernel.spills_bytes}
        assert over_budget(facts, config) == [], target
        texts = compiled[name, target].texts
        if name in PRODUCTS and (name, target) != ("decode_mla", "sm_120"):
            assert MMA[target] in texts.get("ptx", texts.get("amdgcn", "")), target


@needs_triton
def test_inspection_names_what_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (
        ("gemm", "183 us, 0.96 of torch"),
        ("attention", "not measured; an earlier source: prefill_attention"),
        ("attention_delta", "not measured"),
    ):
        assert main(["kernel", "inspect", name, "--target", "sm_90"]) == 0
        assert text in " ".join(capsys.readouterr().out.split()).replace("µs", "us")


@needs_triton
def test_copies_and_roles(compiled: dict[tuple[str, str], Compiled]) -> None:
    for target in ("sm_90", "sm_100", "sm_103", "sm_120"):
        assert "cp.async.bulk.tensor" in compiled["gemm", target].texts["ptx"]
    specialized = [("gemm", "sm_100"), *(("attention", target) for target in TARGETS[:3])]
    specialized += [("attention_dkdv", "sm_90"), ("attention_dq", "sm_90")]
    for pair in specialized:
        assert "setmaxnreg" in compiled[pair].texts["ptx"], pair
    stores = re.findall(r"st\.global\S*\.v4", compiled["rms_norm", "sm_90"].texts["ptx"])
    assert len(stores) > 0  # 16 bytes of each thread


@needs_triton
@pytest.mark.parametrize("name", ["attention", "attention_dkdv", "attention_dq"])
def test_second_warp_group_of_sm_90_moves_its_rows_once(
    name: str, compiled: dict[tuple[str, str], Compiled]
) -> None:
    # Triton 3.9 moves ranges, and scalars that are coordinates of descriptors, to its rows
    text = compiled[name, "sm_90"].texts["ttgir"]
    producer, *groups = re.split(r"\n +partition\d+\(", text)
    assert "warp_specialize" in producer
    assert len(groups) == 2
    moved = re.findall(r"(%\w+) = arith\.addi %\w+, %c64_i32", groups[1])
    assert moved
    assert not [one for one in moved if re.search(rf"tt\.splat {re.escape(one)}\b", groups[1])]


@needs_triton
@pytest.mark.parametrize("target", ["bf16", "fp8e4nv", "fp8e5"])
def test_casts_are_those_of_torch(target: str) -> None:
    import torch

    kind = {"bf16": torch.bfloat16, "fp8e4nv": torch.float8_e4m3fn, "fp8e5": torch.float8_e5m2}
    values = torch.cat([torch.randn(4096) * 30.0, torch.tensor([0.001, -0.0, 448.0])])
    expected = values.to(kind[target]).view(torch.uint8 if target != "bf16" else torch.int16)
    found = rounded(values.numpy(), "fp32", target)
    assert (found == expected.numpy().view(found.dtype)).all()
    assert rounded(np.array([1000.0, np.nan], np.float32), "fp32", "fp8e4nv").tolist() == [126, 127]


@needs_triton
@pytest.mark.parametrize(
    ("rows", "kind"), [(16, "HMMA.16816.F32"), (64, "QGMMA.64x128x32.F32.E4M3.E4M3")]
)
def test_compiled_products_ask_for_what_their_design_does(rows: int, kind: str) -> None:
    """fp8 tiles of 16 rows are converted to 16 bits; 64 rows have instructions of fp8."""
    sizes = {"bm": rows, "bn": 128, "bk": 128, "group": 1, "warps": 4, "stages": 3}
    shape = {"tokens": 16, "hidden": 4096, "intermediate": 192, "experts": 128, "top_k": 8}
    question = tune.Question(
        kernel="grouped_gemm",
        device=resolve_system("h200_sxm").device,
        number_format=get_format("fp8_static"),
        shape=shape | {"ep": 1, "moe_tp": 1},
    )
    chip = tune.chip_of(question.device, question.number_format)
    kernel = tune.compile_designs(question, [sizes], chip)[0][0].kernel
    assert kernel is not None
    assert kernel.main_loop is not None, "nvdisasm is inside Triton"
    assert list(kernel.main_loop.mma) == [kind]
    design = tune.demands_of(question, sizes, chip)[0]
    counted = as_compiled(kernel, design, chip)
    for unit in (loop.TENSOR, loop.VECTOR):
        assert counted.unit_cycles_D[unit] == pytest.approx(design.unit_cycles_D[unit])
    assert counted.unit_cycles_D[loop.SHARED] == pytest.approx(
        design.unit_cycles_D[loop.SHARED], rel=0.15
    )
    assert counted.ahead_D == design.ahead_D


@needs_triton
def test_time_of_a_kernel_with_fewer_stages(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["kernel", "inspect", "gemm", "--time", "--system", "h100_sxm", "--json"]
    shape = ["--shape", "m=4096,n=4096,k=4096"]
    assert main([*words, *shape, "--num-stages", "2"]) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    assert found["compiler_loss"] > 1.2
    assert found["compiler_loss_from"].startswith("fewer loads ahead")
    assert found["time_s"] == pytest.approx(found["compiler_loss"] * found["design_time_s"])
    assert main([*words, "--shape", "m=4096,n=4096"]) == 3
    assert "lacks k" in capsys.readouterr().err
