"""The loads of `gpu_power.py` in torch; imported only where there is a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gpu_power_inputs
import torch
from gpu_power_custom import CUSTOM
from gpu_power_inputs import DTYPES, tensor
from gpu_power_points import DECODER
from gpu_timing import copies_of
from gpu_torch import captured
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_power_cuda import Kernels

BF16 = torch.bfloat16
FP8 = torch.float8_e4m3fn
FREE_SHARE = 0.6  # of the free memory that copies may take
GRAPH_S = 0.01  # length of one graph, to amortise its launch
MAX_NODES = 4000


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of one call."""

    # Functions of one call each; together they keep the cache cold where `cold`
    calls: Sequence[Callable[[], object]]
    flop: float = 0.0
    bytes_moved: float = 0.0  # Each input once and each output once, of one call
    exponentials: float = 0.0
    cold: bool = True  # Whether calls leave nothing in the last-level cache for the next


class Replay:
    """A CUDA graph of calls, long enough to amortise its launch."""

    def __init__(self, work: Work) -> None:
        """Time one round of calls and capture as many as fit."""
        for _ in range(2):
            round_s = elapsed_s(lambda: [call() for call in work.calls])
        most = max(1, MAX_NODES // len(work.calls))
        rounds = min(most, max(1, round(GRAPH_S / round_s)))
        self.work = work
        self.calls = rounds * len(work.calls)
        self.graph = captured([*work.calls] * rounds)[0]
        self.graph.replay()
        self.time_s = elapsed_s(self.graph.replay)


def elapsed_s(run: Callable[[], object]) -> float:
    """Return the GPU time [s]."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) * 1e-3


def work_for(point: Mapping[str, Any], kernels: Kernels, l2_bytes: float) -> Work:
    """Return the work of a point of `gpu_power_points`.

    Args:
        kernels: The kernels of `gpu_power_kernels.cu`.
        l2_bytes: Last-level cache of the device.
    """
    if point["kernel"] in CUSTOM:
        calls, columns = CUSTOM[point["kernel"]](point, kernels)
        return Work(calls=calls, **columns)
    return _TORCH[point["kernel"]](point, l2_bytes)


def rotated(
    make: Callable[[], tuple[torch.Tensor, ...]],
    call: Callable[..., object],
    l2_bytes: float,
) -> tuple[list[Callable[[], object]], bool]:
    """Return calls on enough copies of the tensors for a cold cache, and whether it is cold."""
    first = make()
    call_bytes = sum(one.nbytes for one in first)
    free = FREE_SHARE * torch.cuda.mem_get_info()[0] if gpu_power_inputs.DEVICE == "cuda" else 1e12
    copies, cold = copies_of(call_bytes, l2_bytes, free)
    sets = [first, *(make() for _ in range(copies - 1))]
    return [lambda tensors=tensors: call(*tensors) for tensors in sets], cold  # type: ignore[misc]


def _gemm(point: Mapping[str, Any], l2_bytes: float) -> Work:
    m, n, k = (point[name] for name in ("m", "n", "k"))
    form, inputs = point["format"], point["inputs"]
    one = torch.ones((), device=gpu_power_inputs.DEVICE, dtype=torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = form == "tf32"

    def scaled(a: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        fast = point["kernel"] == "scaled_mm_fast"
        return torch._scaled_mm(  # noqa: SLF001 - torch has no public interface
            a, w.t(), scale_a=one, scale_b=one, out_dtype=BF16, use_fast_accum=fast
        )

    products: dict[str, Callable[..., torch.Tensor]] = {
        "fp8": scaled,
        "int8": lambda a, w: torch._int_mm(a, w.t()),  # noqa: SLF001
    }
    calls, cold = rotated(
        lambda: (tensor((m, k), form, inputs), tensor((n, k), form, inputs)),
        products.get(form, lambda a, w: a @ w.t()),
        l2_bytes,
    )
    out_bytes = {"fp8": 2, "int8": 4}.get(form, DTYPES[form].itemsize)
    moved = DTYPES[form].itemsize * (m * k + n * k) + out_bytes * m * n
    return Work(calls=calls, flop=2.0 * m * n * k, bytes_moved=moved, cold=cold)


def _sdpa(point: Mapping[str, Any], l2_bytes: float) -> Work:
    batch, heads, kv_heads = (point[name] for name in ("batch", "num_heads", "num_kv_heads"))
    q_len, kv_len, width = (point[name] for name in ("q_len", "kv_len", "head_dim"))
    causal = bool(point["causal"])
    backends = {"sdpa_cudnn": [SDPBackend.CUDNN_ATTENTION]}

    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        words = {"is_causal": causal, "enable_gqa": heads != kv_heads}
        if point["kernel"] in backends:
            with sdpa_kernel(backends[point["kernel"]]):
                return functional.scaled_dot_product_attention(q, k, v, **words)
        return functional.scaled_dot_product_attention(q, k, v, **words)

    shapes = ((batch, heads, q_len, width), *[(batch, kv_heads, kv_len, width)] * 2)
    calls, cold = rotated(
        lambda: tuple(tensor(shape, "bf16", point["inputs"]) for shape in shapes), call, l2_bytes
    )
    pairs = batch * heads * (q_len * (q_len + 1) / 2 if causal else q_len * kv_len)
    return Work(
        calls=calls,
        flop=4.0 * pairs * width,
        bytes_moved=4.0 * batch * width * (heads * q_len + kv_heads * kv_len),
        exponentials=pairs,
        cold=cold,
    )


def _pass(point: Mapping[str, Any], l2_bytes: float) -> Work:
    rows, width, kernel = point["m"], point["n"], point["kernel"]
    calls: dict[str, Callable[..., torch.Tensor]] = {
        "exp": torch.exp,
        "softmax": lambda x: functional.softmax(x, -1),
        "rms_norm": lambda x: functional.rms_norm(x, (width,)),
        "silu_mul": lambda x, y: functional.silu(x) * y,
        "cast_fp8": lambda x: x.to(FP8),
        "clone": torch.clone,
    }
    inputs = 2 if kernel == "silu_mul" else 1
    # silu_mul is two kernels: x -> t, then t and y -> out
    element_bytes = {"cast_fp8": 3.0, "silu_mul": 10.0}.get(kernel, 4.0)
    resident = point.get("note") == "from L2"
    made, cold = rotated(
        lambda: tuple(tensor((rows, width), "bf16", point["inputs"]) for _ in range(inputs)),
        calls[kernel],
        0.0 if resident else l2_bytes,
    )
    exponentials = rows * width if kernel in ("exp", "softmax", "silu_mul") else 0
    return Work(
        calls=made[:1] if resident else made,
        bytes_moved=element_bytes * rows * width,
        exponentials=exponentials,
        cold=cold and not resident,
    )


def _layer(point: Mapping[str, Any], l2_bytes: float) -> Work:
    """Return one decoder layer: a new token of each sequence, or all tokens of one prompt."""
    hidden, inner = DECODER["hidden"], DECODER["inner"]
    heads, kv_heads, width = (DECODER[n] for n in ("num_heads", "num_kv_heads", "head_dim"))
    batch, kv_len = point["batch"], point["kv_len"]
    q_len = kv_len if point["kernel"] == "prefill_layer" else 1
    tokens = batch * q_len
    qkv = (heads + 2 * kv_heads) * width
    weights = ((qkv, hidden), (hidden, heads * width), (2 * inner, hidden), (hidden, inner))
    cache = [(batch, kv_heads, kv_len, width)] * 2

    def call(x: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        w_qkv, w_out, w_up, w_down, k, v = rest
        mixed = functional.rms_norm(x, (hidden,)) @ w_qkv.t()
        q = mixed[:, : heads * width].reshape(batch, q_len, heads, width).transpose(1, 2)
        read = functional.scaled_dot_product_attention(
            q, k, v, is_causal=q_len > 1, enable_gqa=True
        )
        x = x + read.transpose(1, 2).reshape(tokens, hidden) @ w_out.t()
        gate, up = (functional.rms_norm(x, (hidden,)) @ w_up.t()).chunk(2, dim=-1)
        return x + (functional.silu(gate) * up) @ w_down.t()

    def make() -> tuple[torch.Tensor, ...]:
        scaled = (0.02 * tensor(shape, "bf16", "normal") for shape in weights)
        kept = (tensor(shape, "bf16", "normal") for shape in cache)
        return tensor((tokens, hidden), "bf16", "normal"), *scaled, *kept

    calls, cold = rotated(make, call, l2_bytes)
    pairs = batch * heads * (q_len * (q_len + 1) / 2 if q_len > 1 else kv_len)
    cells = sum(rows * columns for rows, columns in weights)
    in_and_out = sum(rows + columns for rows, columns in weights)
    attention = 2.0 * heads * width * tokens + 2.0 * batch * kv_heads * kv_len * width
    passes = tokens * (10.0 * hidden + 5.0 * inner)  # two norms, two sums, silu and product
    return Work(
        calls=calls,
        flop=2.0 * tokens * cells + 4.0 * pairs * width,
        bytes_moved=2.0 * (cells + tokens * in_and_out + attention + passes),
        exponentials=pairs + tokens * inner,
        cold=cold,
    )


_TORCH: dict[str, Callable[[Mapping[str, Any], float], Work]] = {
    **dict.fromkeys(("matmul", "scaled_mm", "scaled_mm_fast", "int_mm"), _gemm),
    **dict.fromkeys(("sdpa", "sdpa_cudnn"), _sdpa),
    **dict.fromkeys(("exp", "softmax", "rms_norm", "silu_mul", "cast_fp8", "clone"), _pass),
    **dict.fromkeys(("decoder_layer", "prefill_layer"), _layer),
}
