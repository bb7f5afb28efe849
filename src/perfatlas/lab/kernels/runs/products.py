"""Runs of matrix products. Array names: P pairs of token and expert, E experts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.kernels.registry import splits_of
from perfatlas.lab.kernels.runs import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from torch import Tensor

    from perfatlas.lab.kernels.registry import Config

ADDED: Final = 1024  # elements of a program that adds splits


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
    programs, steps = run.programs(a.device, 1 << 30), run.blocks(k, config.tile[2])
    splits = inputs["splits"] or splits_of(programs, tiles, steps)
    tile = (*config.tile[:4], splits, config.tile[5])
    # parts are in fp32: twice the shared memory of a tile of the output
    if splits > 1 and not inputs["splits"]:
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


def _gemm_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    product = inputs["a"].double() @ inputs["b"].double().T
    return {"out": product * inputs["scale"].double()}


def _experts_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    """Return tokens, experts and their scales; `rows` of experts are pairs in random order."""
    import torch

    experts, n, k, top_k = shape["experts"], shape["n"], shape["k"], shape["top_k"]
    tokens, block = shape["tokens"], shape.get("block", 0)
    expert_P = torch.arange(tokens * top_k) % experts
    if "rows" in shape:
        expert_P = torch.arange(experts).repeat_interleave(torch.tensor(shape["rows"]))
    of_a, of_b = [1], [experts]
    if block:
        of_a, of_b = [tokens, k // block], [experts, run.blocks(n, block), k // block]
    scales = tuple(torch.rand(*size, device=device) + 0.5 for size in (of_a, of_b))
    return {
        "a": run.random(fmt, device, tokens, k),
        "b": run.random(fmt, device, experts, n, k),
        "expert_P": expert_P[torch.randperm(len(expert_P))].to(device),
        "scales": scales,
        "top_k": top_k,
        "block": block,
    }


def _routing(expert_P: Tensor, experts: int, block: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return pairs by expert in whole blocks, the expert of each block, and the padded rows.

    The tables have the size of the worst case, as an engine has them that does not wait for counts.
    """
    import torch

    rows_E, order = torch.bincount(expert_P, minlength=experts), expert_P.argsort(stable=True)
    padded_E = (rows_E + block - 1) // block * block
    first_E = padded_E.cumsum(0) - padded_E - (rows_E.cumsum(0) - rows_E)
    most = run.blocks(len(order) + min(experts, len(order)) * (block - 1), block)
    pairs = torch.full((most * block,), len(order), dtype=torch.int32, device=order.device)
    pairs[torch.arange(len(order), device=order.device) + first_E[expert_P[order]]] = order.int()
    blocks = torch.arange(experts, device=order.device).repeat_interleave(padded_E // block)
    of_block = torch.nn.functional.pad(blocks, (0, most - len(blocks)))
    return pairs, of_block.int(), padded_E.sum().int()[None]


def _experts(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    from perfatlas.lab.kernels.sources.gemm import grouped_gemm_fp8

    a, b, expert_P = inputs["a"], inputs["b"], inputs["expert_P"]
    (experts, n, k), rows = b.shape, config.tile[0]
    routing = _routing(expert_P, experts, rows)
    out = run.poisoned(_output(a), a.device, len(expert_P), n)
    grid = (len(routing[1]) * run.blocks(n, config.tile[1]),)
    sizes, tile = (
        (len(expert_P), experts, n, k, inputs["top_k"]),
        (*config.tile[:4], inputs["block"]),
    )
    run.allocate_descriptors(a.device)

    def launch() -> object:
        return grouped_gemm_fp8[grid](
            a, b, out, routing, inputs["scales"], sizes, TILE=tile, **run.options(config)
        )

    return launch, {"out": out}


def _experts_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    import torch

    a, b, block = inputs["a"].double(), inputs["b"].double(), inputs["block"]
    of_a, of_b = (scale.double() for scale in inputs["scales"])
    if block:
        a = a * of_a.repeat_interleave(block, -1)
        columns = of_b.repeat_interleave(block, 1)[:, : b.shape[1]]
        b = b * columns.repeat_interleave(block, -1)
    else:
        a, b = a * of_a, b * of_b[:, None, None]
    top_k, pairs = inputs["top_k"], enumerate(inputs["expert_P"])
    return {"out": torch.stack([b[expert] @ a[pair // top_k] for pair, expert in pairs])}


PRODUCT_RUNS: Final = {
    "gemm": run.KernelRun(
        inputs=_gemm_inputs, launch=_gemm, expected=_gemm_expected, read=run.numbers
    ),
    "grouped_gemm_fp8": run.KernelRun(
        inputs=_experts_inputs, launch=_experts, expected=_experts_expected, read=run.numbers
    ),
}
