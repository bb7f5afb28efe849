"""Devices with streaming multiprocessors, caches and kernels: GPUs, and what is priced as one."""

from __future__ import annotations

from typing import Final

from perfatlas.hardware.device_fields import (
    ATTENTION_DESIGN,
    BOARD,
    CITED_CLOCKS,
    CITED_FIRST,
    CLOCKS,
    DESIGNS,
    KERNELS,
    OPERATORS,
    PACKAGES,
    POWER,
    DeviceKind,
    count,
    factor,
    identity,
    number,
    optional,
    primary,
    ratio,
    size,
)

KIND: Final = DeviceKind(
    name="gpu",
    fields={
        **identity(
            *("volta", "turing", "ampere", "ada", "hopper", "blackwell", "blackwell_workstation"),
            *("cdna3", "cdna4", "tpu", "cpu", "other"),
        ),
        "device.sm_count": primary(
            count("streaming multiprocessors (SMs) or compute units", *KERNELS, *POWER, *DESIGNS)
        ),
        **PACKAGES,
        "device.flop_per_clock_per_sm": primary(
            optional(
                ratio(
                    "dense bf16 FLOP per clock and SM; a multiply-add is 2",
                    (0.001, 1e9),
                    *OPERATORS,
                    *DESIGNS,
                )
            )
        ),
        **CLOCKS,
        "device.exponentials_per_sm_clock": factor(
            "exponentials per clock",
            ratio("exponentials per clock and SM", (0.001, 1e6), "attention", *ATTENTION_DESIGN),
        ),
        "device.l2": factor(
            "L2 capacity",
            size("L2 cache that an SM reaches", "elementwise operators", into="l2_bytes"),
        ),
        "device.memory.side_cache": number(
            "cache on the side of the memory, beyond L2",
            ("bytes", "B"),
            (0.0, 1e16),
            "elementwise operators",
            into="side_cache_bytes",
            default=0.0,
        ),
        "device.l2_bytes_per_clock": number(
            "bytes per clock that one SM can take from the largest cache",
            ("count", ""),
            (0.01, 1e6),
            "elementwise operators",
            default=64.0,  # NVIDIA since Volta: Jia et al., arXiv:1804.06826, table 3.1
        ),
        "device.shared_memory": primary(
            size("shared memory of one SM", *DESIGNS, into="shared_memory_bytes")
        ),
        **BOARD,
    },
    unit="SM",
    count="device.sm_count",
    width="device.flop_per_clock_per_sm",
    base="h200_sxm",
    cited={**CITED_FIRST, "device.sm_count": "SMs", **CITED_CLOCKS, "device.l2": "L2"},
    orders=(
        ("device.l2", "device.memory.capacity"),
        ("device.shared_memory", "device.memory.capacity"),
    ),
)
