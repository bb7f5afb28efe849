"""Runs of RMSNorm and of the quantizer.

The reference quantizes in float64: what differs is rounding of scales and of ties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.kernels.runs import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from perfatlas.lab.kernels.registry import Config

EPSILON: Final = 1e-6
SPREAD: Final = 3.0  # standard deviation of what is quantized


def _norm_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    rows, width = shape["tokens"], shape["width"]
    sizes = {"x": (rows, width), "residual": (rows, width), "weight": (width,)}
    return {name: run.random(fmt, device, *size) for name, size in sizes.items()}


def _norm(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    from perfatlas.lab.kernels.sources.norms import rms_norm

    x, total = inputs["x"], inputs["residual"].clone()
    out = run.poisoned(x.dtype, x.device, *x.shape)
    grid, sizes = (run.blocks(len(x), config.tile[0]),), (*x.shape, EPSILON)

    def launch() -> object:
        return rms_norm[grid](
            x, total, inputs["weight"], out, sizes, TILE=config.tile, **run.options(config)
        )

    return launch, {"out": out, "residual": total}


def _norm_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    total = inputs["x"].double() + inputs["residual"].double()
    scale = (total.square().mean(-1, keepdim=True) + EPSILON).rsqrt()
    return {"out": total * scale * inputs["weight"].double(), "residual": total}


def _quantizer_inputs(shape: Mapping[str, Any], fmt: str, device: str) -> dict[str, Any]:
    x = run.random("bf16", device, shape["tokens"], shape["width"], scale=SPREAD)
    return {"x": x, "group": shape.get("group", shape["width"]), "kind": run.kind(fmt)}


def _by_group(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    import torch

    from perfatlas.lab.kernels.sources.quantize import quantize_groups

    x, group = inputs["x"], inputs["group"]
    rows, width = x.shape
    out = run.poisoned(inputs["kind"], x.device, rows, width)
    grid = (run.blocks(rows, config.tile[0]), run.blocks(width, group))
    scales = run.poisoned(torch.float32, x.device, rows, grid[1])
    tile = (*config.tile[:2], float(torch.finfo(out.dtype).max))

    def launch() -> object:
        sizes = (rows, width, group)
        return quantize_groups[grid](x, out, scales, sizes, TILE=tile, **run.options(config))

    return launch, {"out": out, "scales": scales}


def _group_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    import torch

    x, kind = inputs["x"].double(), inputs["kind"]
    missing = -x.shape[-1] % inputs["group"]
    groups = torch.nn.functional.pad(x, (0, missing)).unflatten(-1, (-1, inputs["group"]))
    scale = groups.abs().amax(-1, keepdim=True) / torch.finfo(kind).max
    values = (groups / scale).to(kind).double() * scale
    return {"out": values.flatten(-2)[:, : x.shape[1]]}


def _read_groups(inputs: run.Tensors, outputs: dict[str, Any]) -> dict[str, Tensor]:
    values, scales = outputs["out"].double(), outputs["scales"].double()
    per_column = scales.repeat_interleave(inputs["group"], -1)[:, : values.shape[1]]
    return {"out": values * per_column}


STREAMING_RUNS: Final = {
    "rms_norm": run.KernelRun(
        inputs=_norm_inputs, launch=_norm, expected=_norm_expected, read=run.numbers
    ),
    "quantize_groups": run.KernelRun(
        inputs=_quantizer_inputs, launch=_by_group, expected=_group_expected, read=_read_groups
    ),
}
