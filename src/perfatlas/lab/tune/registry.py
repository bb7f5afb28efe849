"""Kernels of the registry as designs: what their tiles ask of a chip, in a shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.formats import get_format
from perfatlas.lab.kernels import lab_kernel
from perfatlas.lab.tune.chip import chip_of, target_of
from perfatlas.lab.tune.kernels import Question, demands_of, shipped_design
from perfatlas.quantities import InvalidSpecError, UnsupportedError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.hardware import Device
    from perfatlas.lab.tune.loop import Demand

# By name: the kernel as tuned, its format, and the sizes of a shape
SHAPES: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "gemm": ("gemm", "bf16", ("m", "n", "k")),
    "attention": ("attention", "bf16", ("batch", "q_len", "kv_len", "num_heads", "num_kv_heads")),
    "decode": ("attention", "bf16", ("batch", "kv_len", "num_heads", "num_kv_heads")),
    "rms_norm": ("norm", "bf16", ("tokens", "width")),
    **{
        f"grouped_gemm_{name}": (
            "grouped_gemm",
            kind,
            ("tokens", "hidden", "intermediate", "experts", "top_k"),
        )
        for name, kind in (("fp8", "fp8_static"), ("fp8_block", "fp8_block"))
    },
}


def registry_demands(name: str, shape: Mapping[str, int], device: Device) -> list[Demand]:
    """Return what each launch of a kernel of the registry asks of a device, as designed.

    Args:
        name: In the registry.
        shape: Its sizes; the kernels of experts have two launches.
        device: Where, with the tile of its target.

    Raises:
        UnsupportedError: No design of the kernel is priced, or it has no tile for the device.
        InvalidSpecError: The shape lacks a size, has an unknown one, or is not of the tile.
    """
    if name not in SHAPES:
        raise UnsupportedError(
            f"no design of {name} is priced (only of {', '.join(SHAPES)}): set --grid and --trips"
            " instead of --shape"
        )
    kernel, kind, sizes = SHAPES[name]
    for size in [*shape, *sizes]:
        if size not in sizes:
            hint = did_you_mean(size, sizes)
            raise InvalidSpecError(f"--shape of {name} has no {size}{hint}; set {', '.join(sizes)}")
        if size not in shape:
            raise InvalidSpecError(f"--shape of {name} lacks {size}; set {', '.join(sizes)}")
    target = target_of(device)
    config = lab_kernel(name).configs.get(target)
    if config is None:
        raise UnsupportedError(f"kernel {name} has no tile for {target}, which {device.name} runs")
    known: dict[str, Any] = dict(shape)
    if kernel == "attention":
        known = {"q_len": 1, "head_dim": config.tile[2], "causal": config.tile[3] is True} | known
    elif kernel == "grouped_gemm":
        known |= {"ep": 1, "moe_tp": 1}
    elif kernel == "norm" and not config.tile[1] // 2 < shape["width"] <= config.tile[1]:
        raise InvalidSpecError(
            f"--shape width={shape['width']} is not of the tile of {target}, which has"
            f" {config.tile[1]:,} columns; set {config.tile[1] // 2 + 1:,} to {config.tile[1]:,}"
        )
    number_format = get_format(kind)
    question = Question(kernel=kernel, device=device, number_format=number_format, shape=known)
    design = shipped_design(question, target, name) or {}
    return demands_of(question, design, chip_of(device, number_format))
