"""Statically scheduled devices: weights resident in SRAM, streams to matrix units, no caches."""

from __future__ import annotations

from typing import Final

from perfatlas.hardware.device_fields import (
    BOARD,
    CITED_CLOCKS,
    CITED_FIRST,
    CLOCKS,
    KERNELS,
    OPERATORS,
    PACKAGES,
    DeviceKind,
    count,
    factor,
    identity,
    primary,
    ratio,
)

_PER_CLOCK: Final = (1.0, 1e9)

KIND: Final = DeviceKind(
    name="dataflow",
    fields={
        **identity("tensor_streaming", "wafer", "reconfigurable"),
        "device.matrix_units": primary(count("matrix units", *OPERATORS)),
        "device.flop_per_clock_per_unit": primary(
            ratio(
                "dense bf16 or fp16 FLOP per clock and matrix unit; a multiply-add is 2",
                _PER_CLOCK,
                *OPERATORS,
            )
        ),
        "device.stream_bytes_per_clock": factor(
            "stream bandwidth",
            ratio("bytes per clock between memory and units", _PER_CLOCK, *KERNELS),
        ),
        "device.feed_bytes_per_clock": factor(
            "weight feed",
            ratio(
                "bytes of weights and cached keys and values per clock into the matrix units",
                _PER_CLOCK,
                *OPERATORS,
            ),
        ),
        "device.vector_lanes": primary(
            count("elements per clock of the vector units", "elementwise operators")
        ),
        "device.fill_cycles": ratio(
            "clocks from the first operand of an operator to its first result", (0.0, 1e6), *KERNELS
        ),
        **PACKAGES,
        **CLOCKS,
        **BOARD,
    },
    unit="matrix unit",
    count="device.matrix_units",
    width="device.flop_per_clock_per_unit",
    base="lpu",
    cited={
        **CITED_FIRST,
        "device.stream_bytes_per_clock": "streams",
        "device.feed_bytes_per_clock": "weight feed",
        "device.fill_cycles": "pipeline fill",
        **CITED_CLOCKS,
        "device.scale_up.bandwidth": "links",
        "device.scale_up.latency": "hop",
    },
    engine="ideal",  # a compiled schedule: no host, no kernels of an engine
)
