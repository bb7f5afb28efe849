"""The fixed lists of loads of `gpu_power.py`, which separate idle, FLOP and bytes.

Each point is a row of columns, without those that do not apply to its kernel. A list is part of
every result: rename the suite when it changes.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SUITE = "power138"  # and one idle GPU without a context
UNITS_SUITE = "power24"

SMS = 132  # of one SXM Hopper: a block per SM
MIB = 2**20
HBM_BYTES = 2**32  # far beyond any last-level cache
L1_BYTES = 64 * 2**10  # of one SM
SIDE = 8192
DECODER = {"hidden": 4096, "inner": 14336, "num_heads": 32, "num_kv_heads": 8, "head_dim": 128}
# Columns that describe a point, in the order of the table.
COLUMNS = (
    *("study", "kernel", "format", "inputs", "m", "n", "k"),
    *("batch", "num_heads", "num_kv_heads", "head_dim", "q_len", "kv_len", "causal"),
    *("working_set_bytes", "sms", "threads", "busy_s", "gap_s", "load_s", "note", "priority"),
)


def points() -> tuple[dict[str, Any], ...]:
    """Return the points; the most important ones come first with priority 1, others have 2."""
    every = (
        _idle("context"),
        *_waiting(),
        *_registers(),
        *_streams(),
        *_gemms(),
        _gemm("bf16", SIDE, note="repeated"),
        *_inputs(),
        *_attention(),
        *_passes(),
        *_gaps(),
        *_layers(),
        _gemm("bf16", SIDE, note="repeated"),
        _idle("context after load"),
        _gemm("bf16", SIDE, study="transient", note="idle, 8 s load, idle"),
    )
    return tuple(sorted(every, key=lambda point: int(point["priority"])))


def unit_points() -> tuple[dict[str, Any], ...]:
    """Return single GPU units with more inputs and SM counts, and a long load.

    Few SMs stay below the power cap at the highest clock; more reach it at a lower one.
    """
    numbers = (("bf16", 16), ("bf16", 99), ("bf16", 116), ("fp8", 33), ("fp8", 66), ("fp8", 99))
    kinds = ("zeros", "uniform", "ones", "small_integers", "half_zeros")
    zeros = (("fma", "fp16"), ("fma", "fp64"), ("mad", "int32"), ("exp2", "fp32"))
    levels = {"sms": SMS, "threads": 1024, "working_set_bytes": L1_BYTES}
    return (
        *(_point("registers", "wgmma", form, sms=sms, threads=256) for form, sms in numbers),
        *(_point("registers", "wgmma", "bf16", inputs=kind, sms=66, threads=256) for kind in kinds),
        *(
            _point("registers", name, form, inputs="zeros", sms=SMS, threads=1024)
            for name, form in zeros
        ),
        *(
            _point("registers", f"read_{name}", inputs="zeros") | levels
            for name in ("shared", "l1")
        ),
        *(_stream(way, 24 * MIB, inputs="zeros") for way in ("write", "copy")),
        _stream("write", HBM_BYTES, inputs="zeros"),
        _stream("read", HBM_BYTES, 16),
        _point("floor", "chase", inputs="", working_set_bytes=16 * MIB, sms=SMS, threads=1024),
        _point("floor", "spin", inputs="", sms=66, threads=1024),
        _gemm("bf16", SIDE, study="transient", load_s=40.0, note="idle, 40 s load, idle"),
    )


def _point(
    study: str, kernel: str, form: str = "", *, inputs: str = "normal", **columns: object
) -> dict[str, Any]:
    named = {"study": study, "kernel": kernel, "format": form, "inputs": inputs}
    return {**named, "priority": 1, **columns}


def _idle(note: str) -> dict[str, Any]:
    return _point("idle", "none", inputs="", note=note)


def _waiting() -> list[dict[str, Any]]:
    """Return kernels that keep SMs active with almost no work."""
    waits = (
        *(("sleep", 1, 32), ("sleep", SMS, 32), ("sleep", SMS, 1024)),
        *(("spin", 1, 32), ("spin", SMS, 32), ("spin", 33, 1024), ("spin", SMS, 1024)),
    )
    chases = ((16 * MIB, 32, 1), (HBM_BYTES, 32, 1), (HBM_BYTES, 1024, 2))
    return [
        *(_point("floor", kernel, inputs="", sms=sms, threads=n) for kernel, sms, n in waits),
        *(
            _point("floor", "chase", inputs="", working_set_bytes=size, sms=SMS, threads=threads)
            | {"priority": priority}
            for size, threads, priority in chases
        ),
        _point("floor", "empty", inputs="", sms=1, threads=32, note="back-to-back launches"),
    ]


def _registers() -> list[dict[str, Any]]:
    """Return arithmetic without memory, and tensor cores fed from shared memory."""
    kernels = (("fma", "fp32"), ("fma", "fp16"), ("exp2", "fp32"), ("mad", "int32"))
    tensor = (("bf16", "normal"), ("bf16", "zeros"), ("fp8", "normal"), ("fp8", "zeros"))
    return [
        *(_point("registers", kernel, form, sms=SMS, threads=1024) for kernel, form in kernels),
        _point("registers", "fma", "fp64", sms=SMS, threads=1024, priority=2),
        _point("registers", "fma", "fp32", sms=SMS, threads=1024) | {"inputs": "zeros"},
        *(
            _point("registers", "wgmma", form, sms=SMS, threads=256) | {"inputs": inputs}
            for form, inputs in tensor
        ),
        *(_point("registers", "wgmma", "bf16", sms=sms, threads=256) for sms in (33, 66)),
        *(
            _point("registers", f"read_{level}", sms=SMS, threads=1024, working_set_bytes=L1_BYTES)
            for level in ("shared", "l1")
        ),
    ]


def _streams() -> list[dict[str, Any]]:
    sizes = (8 * MIB, 24 * MIB, HBM_BYTES)
    return [
        *(_stream(way, size) for way, size in product(("read", "write", "copy"), sizes)),
        *(_stream("read", size, inputs="zeros") for size in (24 * MIB, HBM_BYTES)),
        *(_stream("read", HBM_BYTES, sms) for sms in (8, 33, 66)),
        *(_stream("read", 24 * MIB, sms) for sms in (33, 66)),
        _stream("copy", HBM_BYTES, inputs="zeros", priority=2),
        _stream("copy", HBM_BYTES, 33, priority=2),
        *(_stream("read", size * MIB, priority=2) for size in (40, 64, 128)),
    ]


def _stream(
    way: str, size: int, sms: int = SMS, inputs: str = "normal", priority: int = 1
) -> dict[str, Any]:
    columns = {"working_set_bytes": size, "sms": sms, "threads": 1024, "priority": priority}
    return _point("stream", way, inputs=inputs) | columns


def _gemm(form: str, m: int, side: int = SIDE, **columns: object) -> dict[str, Any]:
    kernel = {"fp8": "scaled_mm", "int8": "int_mm"}.get(form, "matmul")
    return _point("gemm", kernel, form, m=m, n=side, k=side) | columns


def _gemms() -> list[dict[str, Any]]:
    return [
        *(_gemm("bf16", m) for m in (1, 8, 64, 256, 1024, 4096, 8192, 16384)),
        *(_gemm("fp8", m) for m in (16, 64, 256, 1024, 4096, 8192, 16384)),
        *(_gemm("bf16", side, side) for side in (1024, 2048, 4096, 16384)),
        *(_gemm("fp8", side, side) for side in (2048, 4096, 16384)),
        _gemm("fp8", SIDE) | {"kernel": "scaled_mm_fast"},
        *(_gemm(form, SIDE) for form in ("fp16", "tf32", "fp32", "int8", "fp64")),
        *(_gemm(form, 64) for form in ("tf32", "int8")),
        *(_gemm(form, 4096, 4096, priority=2) for form in ("tf32", "int8", "fp32", "fp64")),
    ]


def _inputs() -> list[dict[str, Any]]:
    """Return one large product on inputs of several distributions."""
    kinds = ("uniform", "symmetric", "zeros", "ones", "small_integers", "half_zeros")
    return [
        *(_gemm(form, SIDE) | {"inputs": kind} for form in ("bf16", "fp8") for kind in kinds),
        *(
            _gemm(form, SIDE, priority=2) | {"inputs": kind}
            for form, kind in (("int8", "zeros"), ("int8", "small_integers"), ("fp16", "zeros"))
        ),
    ]


def _attention() -> list[dict[str, Any]]:
    tokens = 16384
    prefill = product((128, 64), (1024, 4096, 16384), (1, 0))
    heads = {"num_heads": 32, "num_kv_heads": 32}
    long = {"batch": 4, "q_len": 4096, "kv_len": 4096, "head_dim": 128}
    decode = ((64, 8, 8192, 1), (64, 32, 2048, 2), (16, 8, 32768, 2))
    return [
        *(
            _point("attention", "sdpa", "bf16", batch=tokens // length, q_len=length, kv_len=length)
            | {**heads, "head_dim": width, "causal": causal}
            | {"priority": 2 if width == 64 and length != 4096 else 1}
            for width, length, causal in prefill
        ),
        *(
            _point("attention", "sdpa_cudnn", "bf16") | {**heads, **long, "causal": causal}
            for causal in (1, 0)
        ),
        *(
            _point("attention", "sdpa", "bf16", batch=batch, q_len=1, kv_len=length)
            | {"num_heads": 32, "num_kv_heads": kv_heads, "head_dim": 128, "causal": 0}
            | {"priority": priority}
            for batch, kv_heads, length, priority in decode
        ),
    ]


def _passes() -> list[dict[str, Any]]:
    kernels = ("exp", "softmax", "rms_norm", "silu_mul", "cast_fp8", "clone")
    return [
        *(_point("elementwise", kernel, "bf16", m=32768, n=8192) for kernel in kernels),
        _point("elementwise", "rms_norm", "bf16", m=512, n=8192, priority=2, note="from L2"),
    ]


def _gaps() -> list[dict[str, Any]]:
    """Return loads with pauses in which the GPU waits for the host."""
    bursts = ((0.023, 0.0077), (0.023, 0.023), (0.023, 0.069), (0.0031, 0.0031), (0.29, 0.29))
    steps = ((0.001, 1), (0.005, 1), (0.02, 2))
    return [
        *(
            _gemm("bf16", SIDE, study="gaps", busy_s=busy_s, gap_s=gap_s)
            for busy_s, gap_s in bursts
        ),
        *(
            _point("gaps", "decoder_layer", "bf16", priority=priority, batch=8, kv_len=2048)
            | {"busy_s": 0.008, "gap_s": gap_s}
            for gap_s, priority in steps
        ),
    ]


def _layers() -> list[dict[str, Any]]:
    """Return whole layers of a decoder with 8 billion parameters: mixtures of the kernels above."""
    decode = ((1, 2048), (64, 2048), (256, 1024))
    return [
        *(
            _point("layer", "decoder_layer", "bf16", batch=batch, kv_len=length)
            for batch, length in decode
        ),
        *(
            _point("layer", "prefill_layer", "bf16", batch=1, kv_len=length)
            for length in (1024, 8192)
        ),
    ]


# Suite -> its points.
SUITES: dict[str, Callable[[], tuple[dict[str, Any], ...]]] = {
    SUITE: points,
    UNITS_SUITE: unit_points,
}
