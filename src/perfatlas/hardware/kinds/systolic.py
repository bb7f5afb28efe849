"""Systolic devices: matrix units (MXUs), vector memory that software manages, a torus of links."""

from __future__ import annotations

from typing import Final

from perfatlas.hardware.device_fields import (
    BOARD,
    CITED_CLOCKS,
    CITED_FIRST,
    CLOCKS,
    INSIDE,
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
    name="systolic",
    fields={
        **identity("tpu", "gaudi", "neuron"),
        "device.matrix_units": primary(count("matrix units", *OPERATORS, *POWER)),
        "device.flop_per_clock_per_unit": primary(
            optional(
                ratio(
                    "dense bf16 or fp16 FLOP per clock and matrix unit; a multiply-add is 2",
                    (1.0, 1e9),
                    *OPERATORS,
                )
            )
        ),
        "device.matrix_side": primary(
            count(
                "rows and columns of a matrix unit, to multiples of which weights are padded",
                *OPERATORS,
            )
        ),
        "device.fewest_rows": primary(
            number(
                "rows for which a square of weights occupies a matrix unit at least; 0: its side",
                ("whole", ""),
                (0, 1e9),
                *OPERATORS,
                default=0.0,
            )
        ),
        "device.vector_lanes": primary(
            count("elements per clock of the vector units", "elementwise operators")
        ),
        "device.vmem": factor(
            "VMEM capacity",
            size("vector memory that software manages", *KERNELS, into="vmem_bytes"),
        ),
        "device.wraparound_multiple": primary(
            number(
                "lengths of torus axes whose ends are linked are multiples of this",
                ("whole", ""),
                (1, 1e9),
                *INSIDE,
                default=1.0,
            )
        ),
        **PACKAGES,
        **CLOCKS,
        **BOARD,
    },
    unit="matrix unit",
    count="device.matrix_units",
    width="device.flop_per_clock_per_unit",
    base="tpu_v5e",
    cited={
        **CITED_FIRST,
        "device.matrix_units": "matrix units",
        "device.matrix_side": "matrix units",
        "device.vmem": "VMEM",
        **CITED_CLOCKS,
        "device.scale_up.bandwidth": "links",
        "device.scale_up.latency": "hop",
    },
    orders=(("device.vmem", "device.memory.capacity"),),
    own_engines=True,
)
