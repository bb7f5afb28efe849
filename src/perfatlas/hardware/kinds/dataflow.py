"""Statically scheduled devices: weights resident in SRAM, streams to matrix units, no caches."""

from __future__ import annotations

from typing import Final

from perfatlas.hardware import device_fields

_PER_CLOCK: Final = (1.0, 1e9)

KIND: Final = device_fields.DeviceKind(
    name="dataflow",
    fields={
        **device_fields.identity("tensor_streaming", "wafer", "reconfigurable"),
        "device.matrix_units": device_fields.primary(
            device_fields.count("matrix units", *device_fields.OPERATORS)
        ),
        "device.flop_per_clock_per_unit": device_fields.primary(
            device_fields.ratio(
                "dense bf16 or fp16 FLOP per clock and matrix unit; a multiply-add is 2",
                _PER_CLOCK,
                *device_fields.OPERATORS,
            )
        ),
        "device.stream_bytes_per_clock": device_fields.factor(
            "stream bandwidth",
            device_fields.ratio(
                "bytes per clock between memory and units", _PER_CLOCK, *device_fields.KERNELS
            ),
        ),
        "device.feed_bytes_per_clock": device_fields.factor(
            "weight feed",
            device_fields.ratio(
                "bytes of weights and cached keys and values per clock into the matrix units",
                _PER_CLOCK,
                *device_fields.OPERATORS,
            ),
        ),
        "device.vector_lanes": device_fields.primary(
            device_fields.count("elements per clock of the vector units", "elementwise operators")
        ),
        "device.fill_cycles": device_fields.ratio(
            "clocks from the first operand of an operator to its first result",
            (0.0, 1e6),
            *device_fields.KERNELS,
        ),
        **device_fields.PACKAGES,
        **device_fields.CLOCKS,
        **device_fields.BOARD,
    },
    unit="matrix unit",
    count="device.matrix_units",
    width="device.flop_per_clock_per_unit",
    base="lpu",
    cited={
        **device_fields.CITED_FIRST,
        "device.stream_bytes_per_clock": "streams",
        "device.feed_bytes_per_clock": "weight feed",
        "device.fill_cycles": "pipeline fill",
        **device_fields.CITED_CLOCKS,
        "device.scale_up.bandwidth": "links",
        "device.scale_up.latency": "hop",
    },
    engine="ideal",  # a compiled schedule: no host, no kernels of an engine
)
