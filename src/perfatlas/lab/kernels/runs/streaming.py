"""Runs of RMSNorm and quantizers.

The reference of a quantizer quantizes in float64: what differs is rounding of scales and of ties.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.lab.kernels.runs import run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from perfatlas.lab.kernels.registry import Config

EPSILON: Final = 1e-6
E2M1: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
SPREAD: Final = 3.0  # standard deviation of what is quantized
_EVEN_FIRST: Final = (0, 2, 4, 6, 1, 3, 5, 7)  # codes; the first of two equally near is even


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
    source = shape.get("from", "bf16")
    x = run.random(source, device, shape["tokens"], shape["width"], scale=SPREAD)
    group = shape.get("group", shape["width"])
    return {"x": x, "group": group, "kind": run.kind(fmt) if fmt.startswith("fp8") else None}


def _largest(x: Tensor, config: Config) -> tuple[run.Launch, Tensor]:
    """Return the launch that finds the largest magnitude, and where it goes."""
    import torch

    from perfatlas.lab.kernels.sources.quantize import largest

    largest_value = torch.zeros(1, device=x.device)
    tile = (config.tile[0], 4)
    grid = (run.blocks(x.numel(), tile[0] * tile[1]),)

    def launch() -> object:
        largest_value.zero_()
        return largest[grid](x, largest_value, x.numel(), TILE=tile, **run.options(config))

    return launch, largest_value


def _by_tensor(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    from perfatlas.lab.kernels.sources.quantize import quantize_tensor

    x, out = inputs["x"], _codes(inputs)
    find, amax = _largest(x, config)
    grid = (run.blocks(x.numel(), config.tile[0]),)
    tile = (config.tile[0], _most(out))

    def launch() -> object:
        find()
        return quantize_tensor[grid](x, amax, out, x.numel(), TILE=tile, **run.options(config))

    return launch, {"out": out, "amax": amax}


def _by_group(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
    import torch

    from perfatlas.lab.kernels.sources.quantize import quantize_groups

    x, out, group = inputs["x"], _codes(inputs), inputs["group"]
    rows, width = x.shape
    grid = (run.blocks(rows, config.tile[0]), run.blocks(width, group))
    scales = run.poisoned(torch.float32, x.device, rows, grid[1])
    tile = (*config.tile[:2], _most(out))

    def launch() -> object:
        sizes = (rows, width, group)
        return quantize_groups[grid](x, out, scales, sizes, TILE=tile, **run.options(config))

    return launch, {"out": out, "scales": scales}


def _packed(function: str, group: int) -> run.Prepare:
    """Return the launch of a quantizer to packed e2m1 with a byte of scale for each group."""

    def prepare(inputs: run.Tensors, config: Config) -> tuple[run.Launch, dict[str, Any]]:
        import torch

        from perfatlas.lab.kernels.sources import quantize

        x = inputs["x"]
        rows, width = x.shape
        out = run.poisoned(torch.uint8, x.device, rows, width // 2)
        scales = run.poisoned(torch.uint8, x.device, rows, width // group)
        grid = (run.blocks(rows, config.tile[0]), run.blocks(width, config.tile[1]))
        kernel, outputs = getattr(quantize, function), {"out": out, "scales": scales}
        find, amax = _largest(x, config) if function == "quantize_nvfp4" else (None, None)

        def launch() -> object:
            more = () if find is None else (amax,)
            if find is not None:
                find()
            arguments = (x, out, scales, *more, (rows, width))
            return kernel[grid](*arguments, TILE=config.tile, **run.options(config))

        return launch, outputs if amax is None else {**outputs, "amax": amax}

    return prepare


def _codes(inputs: run.Tensors) -> Tensor:
    x = inputs["x"]
    return run.poisoned(inputs["kind"], x.device, *x.shape)


def _most(out: Tensor) -> float:
    import torch

    return float(torch.finfo(out.dtype).max)


def grouped(x: Tensor, group: int) -> Tensor:
    """Return the columns of a matrix in groups of equal size; a last part is filled with zeros.

    Args:
        x: (rows, width).
    """
    import torch

    missing = -x.shape[-1] % group
    return torch.nn.functional.pad(x, (0, missing)).unflatten(-1, (-1, group))


def nearest_e2m1(x: Tensor) -> Tensor:
    """Return the nearest values of e2m1, ties to even.

    Args:
        x: Numbers in float64.
    """
    import torch

    order = torch.tensor([E2M1[code] for code in _EVEN_FIRST], dtype=torch.float64)
    nearest = order[(x.abs()[..., None] - order).abs().argmin(-1)]
    return nearest * x.sign()


def unpacked(codes: Tensor) -> Tensor:
    """Return the values of packed codes of e2m1, in float64.

    Args:
        codes: (rows, width / 2).
    """
    import torch

    both = torch.stack([codes & 15, codes >> 4], -1).flatten(-2).long()
    signed = torch.tensor([*E2M1, *(-value for value in E2M1)], dtype=torch.float64)
    return signed[both]


def _tensor_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    x = inputs["x"].double()
    return _quantized(x, x.abs().max(), inputs)


def _group_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    x = grouped(inputs["x"].double(), inputs["group"])
    values = _quantized(x, x.abs().amax(-1, keepdim=True), inputs)["out"]
    return {"out": values.flatten(-2)[:, : inputs["x"].shape[1]]}


def _quantized(x: Tensor, amax: Tensor, inputs: run.Tensors) -> dict[str, Tensor]:
    import torch

    scale = amax / torch.finfo(inputs["kind"]).max
    return {"out": (x / scale).to(inputs["kind"]).double() * scale}


def _mx_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    x = grouped(inputs["x"].double(), 32)
    scale = (x.abs().amax(-1, keepdim=True).log2().floor() - 2.0).exp2()
    return {"out": (nearest_e2m1(x / scale) * scale).flatten(-2)}


def _nv_expected(inputs: run.Tensors) -> dict[str, Tensor]:
    import torch

    x = grouped(inputs["x"].double(), 16)
    whole = x.abs().max() / 2688.0
    block = (x.abs().amax(-1, keepdim=True) / 6.0 / whole).to(torch.float8_e4m3fn).double()
    return {"out": (nearest_e2m1(x / (block * whole)) * block * whole).flatten(-2)}


def _read_tensor(_inputs: run.Tensors, outputs: dict[str, Any]) -> dict[str, Tensor]:
    return {"out": outputs["out"].double() * outputs["amax"].double() / _most(outputs["out"])}


def _read_groups(inputs: run.Tensors, outputs: dict[str, Any]) -> dict[str, Tensor]:
    values, scales = outputs["out"].double(), outputs["scales"].double()
    per_column = scales.repeat_interleave(inputs["group"], -1)[:, : values.shape[1]]
    return {"out": values * per_column}


def _read_mx(_inputs: run.Tensors, outputs: dict[str, Any]) -> dict[str, Tensor]:
    scales = (outputs["scales"].double() - 127.0).exp2().repeat_interleave(32, -1)
    return {"out": unpacked(outputs["out"]) * scales}


def _read_nv(_inputs: run.Tensors, outputs: dict[str, Any]) -> dict[str, Tensor]:
    import torch

    scales = outputs["scales"].view(torch.float8_e4m3fn).double().repeat_interleave(16, -1)
    return {"out": unpacked(outputs["out"]) * scales * outputs["amax"].double() / 2688.0}


STREAMING_RUNS: Final = {
    "rms_norm": run.KernelRun(
        inputs=_norm_inputs, launch=_norm, expected=_norm_expected, read=run.numbers
    ),
    "quantize_tensor": run.KernelRun(
        inputs=_quantizer_inputs, launch=_by_tensor, expected=_tensor_expected, read=_read_tensor
    ),
    "quantize_groups": run.KernelRun(
        inputs=_quantizer_inputs, launch=_by_group, expected=_group_expected, read=_read_groups
    ),
    "quantize_mxfp4": run.KernelRun(
        inputs=_quantizer_inputs,
        launch=_packed("quantize_mxfp4", 32),
        expected=_mx_expected,
        read=_read_mx,
    ),
    "quantize_nvfp4": run.KernelRun(
        inputs=_quantizer_inputs,
        launch=_packed("quantize_nvfp4", 16),
        expected=_nv_expected,
        read=_read_nv,
    ),
}
