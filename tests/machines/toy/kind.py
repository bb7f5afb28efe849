"""Schema of the devices of the toy machine: arrays of multipliers around one on-chip memory."""

from __future__ import annotations

from perfatlas.hardware import DeviceKind
from perfatlas.hardware.device_fields import (
    BOARD,
    CLOCKS,
    KERNELS,
    OPERATORS,
    PACKAGES,
    count,
    identity,
    primary,
    ratio,
)

KIND = DeviceKind(
    name="toy",
    fields={
        **identity("toy_array"),
        "device.array_count": primary(count("arrays of multipliers", *OPERATORS)),
        "device.array_width": primary(count("rows and columns of an array", *OPERATORS)),
        "device.flop_per_clock_per_array": ratio(
            "dense bf16 FLOP per clock and array", (1.0, 1e9), *OPERATORS
        ),
        "device.issue_cycles": count("cycles that issuing one operator takes", *KERNELS),
        **PACKAGES,
        **CLOCKS,
        **BOARD,
    },
    unit="array",
    count="device.array_count",
    width="device.flop_per_clock_per_array",
    base="chip.toml",
)
