"""Work of the kernels in gpu_power_kernels.cu: launches, FLOP and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from gpu_power_inputs import tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpu_power_cuda import Kernels

WAIT_NS = 5_000_000
STREAM_BYTES = 12e9  # moved by one call, some milliseconds
LINE_BYTES = 128
ALIGNED = 64  # words of 16 bytes; kAligned of the kernels
SECTOR_BYTES = 32
ROUNDS = 4000
TENSOR_ROUNDS = 800
CHAINS = 8 * 16  # operations of one thread and round
TENSOR_FLOP = 2 * 2 * 4 * 4 * 2 * 64 * 128 * 16  # of one block and round in bf16; twice that in fp8
EMPTY_CALLS = 1000

Pair = tuple["Sequence[Callable[[], object]]", "dict[str, Any]"]


def _stream() -> int:
    return int(torch.cuda.current_stream().cuda_stream)


def _sink() -> torch.Tensor:
    return torch.zeros(64, device="cuda", dtype=torch.int64)


def _wait(point: Mapping[str, Any], kernels: Kernels) -> Pair:
    awake = int(point["kernel"] == "spin")
    words = (awake, 1, WAIT_NS, point["sms"], point["threads"])
    return [lambda: kernels.launch("run_wait", *words, _stream())], {}


def _empty(_: Mapping[str, Any], kernels: Kernels) -> Pair:
    return [lambda: kernels.launch("run_nothing", _stream())] * EMPTY_CALLS, {}


def _chase(point: Mapping[str, Any], kernels: Kernels) -> Pair:
    nodes = point["working_set_bytes"] // LINE_BYTES
    stride = LINE_BYTES // 4
    order = torch.randperm(nodes, device="cuda", dtype=torch.int32)
    chain = torch.zeros(nodes, stride, device="cuda", dtype=torch.int32)
    chain[order.long(), 0] = order.roll(-1)
    steps, sink = 10_000, _sink()
    warps = point["sms"] * point["threads"] // 32

    def call() -> None:
        words = (chain.data_ptr(), nodes, stride, steps, point["sms"], point["threads"])
        kernels.launch("run_chase", *words, sink.data_ptr(), _stream())

    return [call], {"bytes_moved": float(steps * warps * SECTOR_BYTES), "cold": nodes > 2**20}


def _bits(size: int, inputs: str) -> torch.Tensor:
    """Return random bits or zeros; whole 8-byte words."""
    if inputs == "zeros":
        return torch.zeros(size // 8, device="cuda", dtype=torch.int64)
    return torch.randint(-(2**62), 2**62, (size // 8,), device="cuda", dtype=torch.int64)


def _memory(point: Mapping[str, Any], kernels: Kernels) -> Pair:
    kernel, size, blocks = point["kernel"], point["working_set_bytes"], point["sms"]
    kind = {"read": 0, "write": 1, "copy": 2, "read_l1": 3, "read_shared": 4}[kernel]
    own = kind > 2  # every block has its own working set
    needed = size * (blocks if kind == 3 else 1)
    first, second, sink = _bits(needed, point["inputs"]), _bits(needed, point["inputs"]), _sink()
    copies = 2 if kind == 2 else 1
    slice_words = size // 16 // blocks // copies // ALIGNED * ALIGNED  # of one block
    round_bytes = size * blocks if own else 16 * slice_words * blocks * copies
    rounds = max(1, round((4 if own else 1) * STREAM_BYTES / round_bytes))
    random = int(point["inputs"] != "zeros")

    def call() -> None:
        words = (kind, first.data_ptr(), second.data_ptr(), size, rounds, blocks)
        more = (point["threads"], random, sink.data_ptr(), _stream())
        kernels.launch("run_stream", *words, *more)

    return [call], {"bytes_moved": float(rounds * round_bytes), "cold": size > 2**30}


def _arithmetic(point: Mapping[str, Any], kernels: Kernels) -> Pair:
    names = (("fma", "fp32"), ("fma", "fp64"), ("fma", "fp16"), ("mad", "int32"), ("exp2", "fp32"))
    kind = names.index((point["kernel"], point["format"]))
    blocks, threads = point["sms"], point["threads"]
    spread, sink = float(point["inputs"] != "zeros"), _sink()
    operations = float(ROUNDS * CHAINS * blocks * threads)

    def call() -> None:
        words = (kind, ROUNDS, spread, blocks, threads, sink.data_ptr())
        kernels.launch("run_arithmetic", *words, _stream())

    flop = operations * (4.0 if point["format"] == "fp16" else 2.0)
    exponentials = operations if point["kernel"] == "exp2" else 0.0
    return [call], {"flop": flop, "exponentials": exponentials, "cold": False}


def _tensor(point: Mapping[str, Any], kernels: Kernels) -> Pair:
    fp8 = point["format"] == "fp8"
    count = kernels.tensor_bytes // (1 if fp8 else 2)
    operands = tensor((count,), point["format"], point["inputs"])
    sink = _sink()

    def call() -> None:
        words = (int(fp8), operands.data_ptr(), TENSOR_ROUNDS, point["sms"], sink.data_ptr())
        kernels.launch("run_tensor", *words, _stream())

    flop = float(TENSOR_FLOP * (2 if fp8 else 1) * TENSOR_ROUNDS * point["sms"])
    return [call], {"flop": flop, "cold": False}


CUSTOM: dict[str, Callable[[Mapping[str, Any], Kernels], Pair]] = {
    **dict.fromkeys(("sleep", "spin"), _wait),
    "empty": _empty,
    "chase": _chase,
    **dict.fromkeys(("read", "write", "copy", "read_l1", "read_shared"), _memory),
    **dict.fromkeys(("fma", "mad", "exp2"), _arithmetic),
    "wgmma": _tensor,
}
