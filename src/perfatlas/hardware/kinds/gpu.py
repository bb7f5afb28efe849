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
    OPERATORS,
    PACKAGES,
    POWER,
    DeviceKind,
    count,
    factor,
    identity,
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
            count("streaming multiprocessors (SMs) or compute units", *OPERATORS, *POWER, *DESIGNS)
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
            "L2 capacity", size("last-level cache", "elementwise operators", into="l2_bytes")
        ),
        "device.shared_memory": primary(
            size("shared memory of one SM", *DESIGNS, into="shared_memory_bytes")
        ),
        **BOARD,
    },
    unit="SM",
    count="device.sm_count",
    width="device.flop_per_clock_per_sm",
    cited={**CITED_FIRST, "device.sm_count": "SMs", **CITED_CLOCKS, "device.l2": "L2"},
    orders=(
        ("device.l2", "device.memory.capacity"),
        ("device.shared_memory", "device.memory.capacity"),
    ),
)
