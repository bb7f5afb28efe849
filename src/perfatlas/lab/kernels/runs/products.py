"""Runs of matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.kernels.runs import run
from perfatlas.lab.kernels.runs.streaming import unpacked

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch import Tensor

    from perfatlas.lab.kernels.registry import Config

ADDED: Final = 1024  # elements of a program that adds splits
MIN_STEPS: Final = 8  # of the main loop in a split
MAX_SPLITS: Final = 16
GROUP: Final = 128  # rows and columns of a scale


def _output(a: Tensor) -> torch.dtype:
    """Return the format of the product: that of the operands, bf16 for fp8."""
    import torch

    dtype: torch.dtype = a.dtype if a.dtype.itemsize > 1 else torch.bfloat16
    return dtype


def _gemm_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    import torch

    m, n, k = shape["m"], shape["n"], shape["k"]
    scale = torch.full((1,), 0.75 if fmt.startswith("fp8") else 1.0, device=device)
    operands = {"a": run.random(fmt, device, m, k), "b": run.random(fmt, device, n, k)}
    return {**operands, "scale": scale, "splits": shape.get("splits")}


def _gemm(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    import torch

    from perfatlas.lab.kernels.sources.gemm import gemm, sum_splits

    a, b = inputs["a"], inputs["b"]
    (m, k), n = a.shape, len(b)
    tiles = run.blocks(m, config.tile[0]) * run.blocks(n, config.tile[1])
    splits = inputs["splits"] or _splits(a.device, tiles, run.blocks(k, config.tile[2]))
    tile = (*config.tile[:4], splits, config.tile[5])
    if splits > 1:  # parts are in fp32: twice the shared memory of a tile of the output
        tile = (tile[0], tile[1] // 2, *tile[2:])
    out = run.poisoned(_output(a), a.device, m, n)
    parts = out if splits == 1 else run.poisoned(torch.float32, a.device, splits, m, n)
    grid, added = (run.programs(a.device, tiles * splits),), (run.blocks(m * n, ADDED),)
    run.allocate_descriptors(a.device)

    def launch() -> object:
        sizes = (m, n, k)
        done = gemm[grid](a, b, parts, inputs["scale"], sizes, TILE=tile, **run.options(config))
        if splits > 1:
            done = sum_splits[added](parts, out, m * n, TILE=(ADDED, splits))
        return done

    return launch, {"out": out}


def _splits(where: torch.device, tiles: int, steps: int) -> int:
    """Return the splits of K: those that fill idle SMs, each with some steps."""
    return max(1, min(run.programs(where, 1 << 30) // tiles, steps // MIN_STEPS, MAX_SPLITS))


def _gemm_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    product = inputs["a"].double() @ inputs["b"].double().T
    return {"out": product * inputs["scale"].double()}


def _block_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    import torch

    m, n, k = shape["m"], shape["n"], shape["k"]
    return {
        "a": run.random(fmt, device, m, k),
        "b": run.random(fmt, device, n, k),
        "a_scales": torch.rand(m, k // GROUP, device=device) + 0.5,
        "b_scales": torch.rand(run.blocks(n, GROUP), k // GROUP, device=device) + 0.5,
    }


def _block(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    from perfatlas.lab.kernels.sources.gemm import gemm_block_scaled

    scales = (inputs["a_scales"], inputs["b_scales"])
    return _scaled(gemm_block_scaled, inputs, scales, config)


def _block_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    a, b = inputs["a"].double(), inputs["b"].double()
    a = a * inputs["a_scales"].double().repeat_interleave(GROUP, -1)
    by_row = inputs["b_scales"].double().repeat_interleave(GROUP, -1)
    b = b * by_row.repeat_interleave(GROUP, 0)[: len(b)]
    return {"out": a @ b.T}


def _nvfp4_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    import torch

    m, n, k = shape["m"], shape["n"], shape["k"]
    codes = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device=device)
    block = (torch.rand(n, k // 16, device=device) * 4.0 + 0.25).to(torch.float8_e4m3fn)
    return {
        "a": run.random(fmt, device, m, k),
        "b": codes,
        "block_scales": block.view(torch.uint8),
        "tensor_scale": torch.full((1,), 0.125, device=device),
    }


def _nvfp4(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    from perfatlas.lab.kernels.sources.gemm import gemm_nvfp4_weights

    scales = (inputs["block_scales"], inputs["tensor_scale"])
    return _scaled(gemm_nvfp4_weights, inputs, scales, config)


def _nvfp4_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    import torch

    block = inputs["block_scales"].view(torch.float8_e4m3fn).double()
    weights = unpacked(inputs["b"]) * block.repeat_interleave(16, -1)
    return {"out": inputs["a"].double() @ weights.T * inputs["tensor_scale"].double()}


def _scaled(
    kernel: run.Kernel, inputs: run.Tensors, scales: tuple[Tensor, ...], config: Config
) -> tuple[run.Launch, dict[str, Any]]:
    """Return the launch of a product whose operands have scales."""
    a, b = inputs["a"], inputs["b"]
    (m, k), n = a.shape, len(b)
    out = run.poisoned(_output(a), a.device, m, n)
    grid = (run.programs(a.device, run.blocks(m, config.tile[0]) * run.blocks(n, config.tile[1])),)
    run.allocate_descriptors(a.device)

    def launch() -> object:
        return kernel[grid](a, b, out, scales, (m, n, k), TILE=config.tile, **run.options(config))

    return launch, {"out": out}


def _grouped_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    import torch

    counts = torch.tensor(shape["rows"])
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).int()
    rows, groups, n, k = int(counts.sum()), len(counts), shape["n"], shape["k"]
    return {
        "a": run.random(fmt, device, rows, k),
        "b": run.random(fmt, device, groups, n, k),
        "offsets": offsets.to(device),
    }


def _grouped(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    from perfatlas.lab.kernels.sources.gemm import grouped_gemm

    a, b, offsets = inputs["a"], inputs["b"], inputs["offsets"]
    (rows, k), (groups, n, _) = a.shape, b.shape
    out = run.poisoned(_output(a), a.device, rows, n)
    most = (run.blocks(rows, config.tile[0]) + groups) * run.blocks(n, config.tile[1])
    grid, sizes = (run.programs(a.device, most),), (rows, groups, n, k)
    run.allocate_descriptors(a.device)

    def launch() -> object:
        return grouped_gemm[grid](
            a, b, out, offsets, sizes, TILE=config.tile, **run.options(config)
        )

    return launch, {"out": out}


def _grouped_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    import torch

    bounds = inputs["offsets"].tolist()
    parts = [
        inputs["a"][start:end].double() @ matrix.double().T
        for start, end, matrix in zip(bounds, bounds[1:], inputs["b"], strict=False)
    ]
    return {"out": torch.cat(parts)}


PRODUCT_RUNS: Final = {
    "gemm": run.KernelRun(
        inputs=_gemm_inputs, launch=_gemm, expected=_gemm_expected, read=run.numbers
    ),
    "gemm_block_scaled": run.KernelRun(
        inputs=_block_inputs, launch=_block, expected=_block_expected, read=run.numbers
    ),
    "gemm_nvfp4_weights": run.KernelRun(
        inputs=_nvfp4_inputs, launch=_nvfp4, expected=_nvfp4_expected, read=run.numbers
    ),
    "grouped_gemm": run.KernelRun(
        inputs=_grouped_inputs, launch=_grouped, expected=_grouped_expected, read=run.numbers
    ),
}
