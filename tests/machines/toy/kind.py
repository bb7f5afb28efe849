"""Schema of the devices of the toy machine: arrays of multipliers around one on-chip memory."""

from __future__ import annotations

from perfatlas.hardware import DeviceKind, device_fields

KIND = DeviceKind(
    name="toy",
    fields={
        **device_fields.identity("toy_array"),
        "device.array_count": device_fields.primary(
            device_fields.count("arrays of multipliers", *device_fields.OPERATORS)
        ),
        "device.array_width": device_fields.primary(
            device_fields.count("rows and columns of an array", *device_fields.OPERATORS)
        ),
        "device.flop_per_clock_per_array": device_fields.ratio(
            "dense bf16 FLOP per clock and array", (1.0, 1e9), *device_fields.OPERATORS
        ),
        "device.issue_cycles": device_fields.count(
            "cycles that issuing one operator takes", *device_fields.KERNELS
        ),
        **device_fields.PACKAGES,
        **device_fields.CLOCKS,
        **device_fields.BOARD,
    },
    unit="array",
    count="device.array_count",
    width="device.flop_per_clock_per_array",
    base="chip.toml",
)
