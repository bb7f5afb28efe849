"""Devices with streaming multiprocessors, caches and kernels: GPUs, and what is priced as one."""

from __future__ import annotations

from typing import Final

from perfatlas.hardware import device_fields

KIND: Final = device_fields.DeviceKind(
    name="gpu",
    fields={
        **device_fields.identity(
            *("volta", "turing", "ampere", "ada", "hopper", "blackwell", "blackwell_workstation"),
            *("cdna", "cdna2", "cdna3", "cdna4", "tpu", "cpu", "other"),
        ),
        "device.sm_count": device_fields.primary(
            device_fields.count(
                "streaming multiprocessors (SMs) or compute units",
                *device_fields.KERNELS,
                *device_fields.POWER,
                *device_fields.DESIGNS,
            )
        ),
        **device_fields.PACKAGES,
        **device_fields.PACKAGING,
        "device.flop_per_clock_per_sm": device_fields.primary(
            device_fields.optional(
                device_fields.ratio(
                    "dense bf16 FLOP per clock and SM; a multiply-add is 2",
                    (0.001, 1e9),
                    *device_fields.OPERATORS,
                    *device_fields.DESIGNS,
                )
            )
        ),
        **device_fields.CLOCKS,
        "device.exponentials_per_sm_clock": device_fields.factor(
            "exponentials per clock",
            device_fields.ratio(
                "exponentials per clock and SM",
                (0.001, 1e6),
                "attention",
                *device_fields.ATTENTION_DESIGN,
            ),
        ),
        "device.l2": device_fields.factor(
            "L2 capacity",
            device_fields.size(
                "L2 cache that an SM reaches", "elementwise operators", into="l2_bytes"
            ),
        ),
        "device.memory.side_cache": device_fields.number(
            "cache on the side of the memory, beyond L2",
            ("bytes", "B"),
            (0.0, 1e16),
            "elementwise operators",
            into="side_cache_bytes",
            default=0.0,
        ),
        "device.l2_bytes_per_clock": device_fields.number(
            "bytes per clock that one SM can take from the largest cache",
            ("count", ""),
            (0.01, 1e6),
            "elementwise operators",
            default=64.0,  # NVIDIA since Volta: Jia et al., arXiv:1804.06826, table 3.1
        ),
        "device.shared_memory": device_fields.primary(
            device_fields.size(
                "shared memory of one SM", *device_fields.DESIGNS, into="shared_memory_bytes"
            )
        ),
        **device_fields.BOARD,
    },
    unit="SM",
    count="device.sm_count",
    width="device.flop_per_clock_per_sm",
    base="h200_sxm",
    cited={
        **device_fields.CITED_FIRST,
        "device.sm_count": "SMs",
        **device_fields.CITED_CLOCKS,
        "device.l2": "L2",
    },
    orders=(
        ("device.l2", "device.memory.capacity"),
        ("device.shared_memory", "device.memory.capacity"),
    ),
)
