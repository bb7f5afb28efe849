"""This CPU as a hardware file: peaks, bandwidth by size and latencies of one core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import format_toml
from perfatlas.lab.harness.machine import Readings, cache_sizes
from perfatlas.quantities import format_quantity
from perfatlas.version import __version__

if TYPE_CHECKING:
    from perfatlas.lab.harness.ceilings import Ceilings
    from perfatlas.lab.harness.machine import Machine

BASE: Final = "cpu"  # system of the catalog that the file changes
EXPONENTIALS: Final = 16.0  # FLOP of an exponential on vector units, as in the base
HEADER: Final = (
    "# One core of this CPU, measured by `perfatlas bench device`; --system takes the path of\n"
    "# this file. Fields that are not set are those of the system cpu, which is assumed.\n"
)


def device_file(machine: Machine, ceilings: Ceilings, readings: Readings) -> str:
    """Return the text of a hardware file of one core.

    Args:
        machine: The CPU.
        ceilings: What was measured on one core.
        readings: Its clock and sensors.
    """
    clock_hz = readings.clock_hz or 2.5e9
    peak = ceilings.flop_per_s["bf16"]
    width = peak / clock_hz
    caches = cache_sizes()
    source = {
        "kind": "measured",
        "ref": f"perfatlas bench device {__version__} on {machine.device}: {machine.stack}",
    }
    peaks = {
        name: {"value": _text(value, "FLOP/s"), "note": f"torch, {ceilings.shapes[name]}"}
        for name, value in ceilings.flop_per_s.items()
    }
    table: dict[str, Any] = {
        "base": BASE,
        "source": source,
        "notes": _notes(machine, ceilings, readings),
        "device": {
            "sm_count": 1,
            "flop_per_clock_per_sm": {
                "value": float(f"{width:.6g}"),
                "note": "bf16 peak over the clock",
            },
            "exponentials_per_sm_clock": {
                "value": float(f"{max(width / 2 / EXPONENTIALS, 0.01):.6g}"),
                "kind": "derived",
                "note": "a polynomial of 16 FLOP at the peak of fp32 vectors",
            },
            "l2": _text(machine.cache_bytes, "B"),
            **({"shared_memory": _text(caches["L1"], "B")} if "L1" in caches else {}),
            "peak": peaks,
            "clock": dict.fromkeys(("peak", "boost", "sustained"), _text(clock_hz, "Hz")),
            "memory": {
                "capacity": _text(machine.memory_bytes, "B"),
                "bandwidth": {
                    "value": _text(ceilings.memory_bytes_per_s, "B/s"),
                    "note": "copy by one core, bytes read and written",
                },
            },
            "host_link": {"bandwidth": _text(ceilings.memory_bytes_per_s, "B/s")},
        },
    }
    return HEADER + format_toml(table)


def _notes(machine: Machine, ceilings: Ceilings, readings: Readings) -> list[str]:
    sizes = ", ".join(
        f"{_text(size, 'B')} {_text(rate, 'B/s')}"
        for size, rate in zip(ceilings.sizes, ceilings.bytes_per_s, strict=True)
    )
    notes = [
        f"one core of {machine.cores} of {machine.device}; others share caches and memory",
        f"bandwidth of a copy by size of its data: {sizes}",
        f"shortest call of PyTorch: {_text(ceilings.call_s, 's')}",
    ]
    return notes + ([f"not measured: {'; '.join(readings.unread)}"] if readings.unread else [])


def _text(value: float, unit: str) -> str:
    return format_quantity(value, unit, digits=5)
