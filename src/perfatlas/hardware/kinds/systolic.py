"""Systolic devices: matrix units (MXUs), vector memory that software manages, a torus of links."""

from __future__ import annotations

from typing import Final

from perfatlas.hardware import device_fields

KIND: Final = device_fields.DeviceKind(
    name="systolic",
    fields={
        **device_fields.identity("tpu", "gaudi", "neuron"),
        "device.matrix_units": device_fields.primary(
            device_fields.count("matrix units", *device_fields.OPERATORS, *device_fields.POWER)
        ),
        "device.flop_per_clock_per_unit": device_fields.primary(
            device_fields.optional(
                device_fields.ratio(
                    "dense bf16 or fp16 FLOP per clock and matrix unit; a multiply-add is 2",
                    (1.0, 1e9),
                    *device_fields.OPERATORS,
                )
            )
        ),
        "device.matrix_side": device_fields.primary(
            device_fields.count(
                "rows and columns of a matrix unit, to multiples of which weights are padded",
                *device_fields.OPERATORS,
            )
        ),
        "device.fewest_rows": device_fields.primary(
            device_fields.number(
                "rows for which a square of weights occupies a matrix unit at least; 0: its side",
                ("whole", ""),
                (0, 1e9),
                *device_fields.OPERATORS,
                default=0.0,
            )
        ),
        "device.vector_lanes": device_fields.primary(
            device_fields.count("elements per clock of the vector units", "elementwise operators")
        ),
        "device.vmem": device_fields.factor(
            "VMEM capacity",
            device_fields.size(
                "vector memory that software manages", *device_fields.KERNELS, into="vmem_bytes"
            ),
        ),
        "device.wraparound_multiple": device_fields.primary(
            device_fields.number(
                "lengths of torus axes whose ends are linked are multiples of this",
                ("whole", ""),
                (1, 1e9),
                *device_fields.INSIDE,
                default=1.0,
            )
        ),
        **device_fields.PACKAGES,
        **device_fields.CLOCKS,
        **device_fields.BOARD,
    },
    unit="matrix unit",
    count="device.matrix_units",
    width="device.flop_per_clock_per_unit",
    base="tpu_v5e",
    cited={
        **device_fields.CITED_FIRST,
        "device.matrix_units": "matrix units",
        "device.matrix_side": "matrix units",
        "device.vmem": "VMEM",
        **device_fields.CITED_CLOCKS,
        "device.scale_up.bandwidth": "links",
        "device.scale_up.latency": "hop",
    },
    orders=(("device.vmem", "device.memory.capacity"),),
    own_engines=True,
)
