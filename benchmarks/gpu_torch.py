"""The kernels of `gpu_kernels.py` in torch; imported only where there is a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gpu_timing import MIN_CALLS, copies_of
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

BF16 = torch.bfloat16
FP8 = torch.float8_e4m3fn
FREE_SHARE = 0.6  # of the free memory that copies may take


def captured(
    calls: Sequence[Callable[[], object]], *, keep_outputs: bool = False
) -> tuple[torch.cuda.CUDAGraph, list[object]]:
    """Return a CUDA graph of consecutive calls, and their outputs.

    Args:
        calls: Functions of one call each.
        keep_outputs: Whether each call has a separate output; otherwise outputs are overwritten.
    """
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls[:3]:
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    outputs: list[object] = []
    with torch.cuda.graph(graph):
        for call in calls:
            output = call()
            if keep_outputs:
                outputs.append(output)
    return graph, outputs


class Loop:
    """A CUDA graph of back-to-back calls, each on the next copy of its tensors.

    Args:
        make: Makes the tensors of one call.
        call: Runs one call on them.
        l2_bytes: Last-level cache of the device.
    """

    def __init__(
        self,
        make: Callable[[], tuple[torch.Tensor, ...]],
        call: Callable[..., torch.Tensor],
        l2_bytes: float,
    ) -> None:
        """Allocate the copies and capture the graph."""
        first = make()
        call_bytes = sum(tensor.nbytes for tensor in first) + call(*first).nbytes
        free_bytes = FREE_SHARE * torch.cuda.mem_get_info()[0]
        self.copies, self.cold = copies_of(call_bytes, l2_bytes, free_bytes)
        sets = [first, *(make() for _ in range(self.copies - 1))]
        rounds = -(-MIN_CALLS // self.copies)
        self.calls = rounds * self.copies
        self.graph, self.outputs = captured(
            [lambda tensors=tensors: call(*tensors) for tensors in sets * rounds],  # type: ignore[misc]
            keep_outputs=True,
        )
        self.sets = sets

    def run(self) -> float:
        """Return the time of one replay [s]."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3

    def protocol(self, operator: str) -> dict[str, Any]:
        """Return the protocol columns of a row measured with this loop."""
        copies = 0 if self.cold or operator != "gemm" else self.copies
        return {"copies": copies, "shared_activation": 0, "hot": int(not self.cold)}


def _normal(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, device="cuda", dtype=BF16)


def _fp8(*sizes: int) -> torch.Tensor:
    return _normal(*sizes).to(FP8)


def loop_for(shape: Mapping[str, Any], l2_bytes: float) -> Loop:
    """Return the loop that measures one shape.

    Args:
        shape: A row of `gpu_shapes.shapes`.
        l2_bytes: Last-level cache of the device.
    """
    make, call = _KERNELS[shape["kernel"]](shape)
    return Loop(make, call, l2_bytes)


Pair = tuple["Callable[[], tuple[torch.Tensor, ...]]", "Callable[..., torch.Tensor]"]


def _matmul(shape: Mapping[str, Any]) -> Pair:
    m, n, k = (shape[name] for name in ("m", "n", "k"))
    return lambda: (_normal(m, k), _normal(n, k)), lambda a, w: a @ w.t()


def _scaled_mm(shape: Mapping[str, Any]) -> Pair:
    m, n, k = (shape[name] for name in ("m", "n", "k"))
    one = torch.ones((), device="cuda", dtype=torch.float32)

    def call(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch._scaled_mm(a, w.t(), scale_a=one, scale_b=one, out_dtype=BF16)  # noqa: SLF001 - torch has no public interface

    return lambda: (_fp8(m, k), _fp8(n, k)), call


def _grouped_mm(shape: Mapping[str, Any]) -> Pair:
    """Return a gated expert network: sort by expert, two products, weighted sum."""
    names = ("tokens", "hidden", "intermediate", "experts", "top_k")
    tokens, hidden, inner, experts, top_k = (shape[name] for name in names)
    rows = torch.arange(tokens * top_k, device="cuda")
    expert = (rows * experts // max(tokens * top_k, experts)) % experts  # balanced, in order
    ends = torch.cumsum(torch.bincount(expert, minlength=experts), 0).to(torch.int32)
    token = rows % tokens
    weight = torch.full((tokens * top_k, 1), 1.0 / top_k, device="cuda", dtype=BF16)

    def make() -> tuple[torch.Tensor, ...]:
        up, down = _normal(experts, hidden, 2 * inner), _normal(experts, inner, hidden)
        return _normal(tokens, hidden), up, down

    def call(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        gate, value = torch._grouped_mm(x[token], up, offs=ends).chunk(2, dim=-1)  # noqa: SLF001
        out = torch._grouped_mm(functional.silu(gate) * value, down, offs=ends)  # noqa: SLF001
        return torch.zeros_like(x).index_add_(0, token, out * weight)

    return make, call


def _sdpa(shape: Mapping[str, Any]) -> Pair:
    batch, heads, kv_heads = (shape[name] for name in ("batch", "num_heads", "num_kv_heads"))
    q_len, kv_len, width = (shape[name] for name in ("q_len", "kv_len", "head_dim"))

    def make() -> tuple[torch.Tensor, ...]:
        keys = _normal(batch, kv_heads, kv_len, width), _normal(batch, kv_heads, kv_len, width)
        return _normal(batch, heads, q_len, width), *keys

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(
            q, k, v, is_causal=q_len > 1, enable_gqa=heads != kv_heads
        )

    return make, call


def _pass(shape: Mapping[str, Any]) -> Pair:
    tokens, kernel = shape["tokens"], shape["kernel"]
    element_bytes = 3 if kernel == "cast_fp8" else 4
    width = shape["bytes"] // (tokens * element_bytes)
    calls: dict[str, Callable[..., torch.Tensor]] = {
        "rms_norm": lambda x: functional.rms_norm(x, (width,)),
        "cast_fp8": lambda x: x.to(FP8),
        "copy": lambda x: x.clone(),
    }
    return lambda: (_normal(tokens, width),), calls[kernel]


_KERNELS: dict[str, Callable[[Mapping[str, Any]], Pair]] = {
    "matmul": _matmul,
    "scaled_mm": _scaled_mm,
    "grouped_mm": _grouped_mm,
    "sdpa": _sdpa,
    "rms_norm": _pass,
    "cast_fp8": _pass,
    "copy": _pass,
}
