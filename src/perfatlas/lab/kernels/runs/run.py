"""What runs a kernel and what its result should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from perfatlas.lab.kernels.registry import Config

Tensors = Mapping[str, Any]
Launch = Callable[[], object]
Kernel = Mapping[tuple[int, ...], Callable[..., object]]  # from a grid to its launch
Prepare = Callable[[Tensors, "Config"], tuple[Launch, dict[str, Any]]]

TORCH_TYPES: Final = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp8": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
}
FEW_PROGRAMS: Final = 3  # of persistent kernels in the interpreter: each has several tiles


@dataclass(frozen=True, kw_only=True)
class KernelRun:
    """How a kernel is run and checked."""

    # From shape, format and device to tensors of random numbers
    inputs: Callable[[Mapping[str, Any], str, str], dict[str, Any]]
    launch: Prepare  # From tensors and a tile to the launch and its outputs, which are poisoned
    expected: Callable[[Tensors], dict[str, Tensor]]  # From tensors to the outputs in float64
    # From tensors and outputs to numbers in float64, where outputs are codes
    read: Callable[[Tensors, dict[str, Any]], dict[str, Tensor]]


def numbers(_inputs: Tensors, outputs: dict[str, Any]) -> dict[str, Tensor]:
    """Return outputs in float64."""
    return {name: output.double() for name, output in outputs.items()}


def kind(name: str) -> torch.dtype:
    """Return the type of PyTorch of a format.

    Args:
        name: Such as bf16.
    """
    import torch

    dtype: torch.dtype = getattr(torch, TORCH_TYPES[name])
    return dtype


def random(number_format: str, device: str, *sizes: int, scale: float = 1.0) -> Tensor:
    """Return normal numbers in a format."""
    import torch

    return (torch.randn(*sizes, device=device) * scale).to(kind(number_format))


def poisoned(dtype: torch.dtype, where: torch.device, *sizes: int) -> Tensor:
    """Return an output in which elements that no program writes are NaN, or codes of all ones."""
    import torch

    if dtype.itemsize > 1:
        return torch.full(sizes, float("nan"), dtype=dtype, device=where)
    return torch.full(sizes, 255, dtype=torch.uint8, device=where).view(dtype)


def programs(where: torch.device, most: int) -> int:
    """Return the programs of a persistent kernel: one for each SM, and no more than tiles."""
    import torch

    if where.type == "cpu":
        return min(FEW_PROGRAMS, most)
    properties = torch.cuda.get_device_properties(where)
    return min(int(properties.multi_processor_count), most)


def allocate_descriptors(where: torch.device) -> None:
    """Give Triton memory for tensor descriptors that kernels make."""
    import torch
    import triton

    if where.type != "cpu":
        triton.set_allocator(
            lambda size, _align, _stream: torch.empty(size, dtype=torch.int8, device=where)
        )


def blocks(size: int, block: int) -> int:
    """Return how many blocks cover a size."""
    return -(-size // block)


def options(config: Config) -> dict[str, int]:
    """Return the options of a launch."""
    return {"num_warps": config.warps, "num_stages": config.stages}
