"""Times of compiled kernels: `kernel inspect --time`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfatlas.quantities import InvalidSpecError, format_quantity, repr_for_error
from perfatlas.report.text import format_share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.lab.kernels import LabKernel
    from perfatlas.lab.static import Inspection
    from perfatlas.lab.tune import Launch
    from perfatlas.verbs.kernel_inspect.flags import InspectFlags

UNITS = 3  # of a brief answer


@dataclass(frozen=True, kw_only=True)
class TimeQuestion:
    """Where kernels run, and their launch or shape."""

    system: str
    launch: Launch
    shape: Mapping[str, int] | None


def asked(flags: InspectFlags, *, own: bool) -> TimeQuestion:
    """Return what is asked for with `--time`.

    Args:
        flags: Within their bounds.
        own: Whether the kernel is one of perfatlas.

    Raises:
        InvalidSpecError: The system or the launch is missing, or is no launch.
    """
    from perfatlas.lab.tune import Launch

    if flags.system is None:
        raise InvalidSpecError("--time needs the GPU that runs the kernel: set --system")
    shape = None
    if flags.shape is not None:
        if not own:
            raise InvalidSpecError(
                "--shape applies only to kernels of perfatlas; set --grid and --trips"
            )
        if flags.grid is not None or flags.trips is not None:
            raise InvalidSpecError("--shape implies the launch; leave --grid and --trips out")
        pairs = [part.partition("=") for part in flags.shape.split(",")]
        shape = {name.strip(): _count("shape", value) for name, _, value in pairs}
    elif flags.grid is None:
        instead = " or --shape" if own else ""
        raise InvalidSpecError(f"--time needs the blocks of the launch: set --grid{instead}")
    trips = tuple(_count("trips", one) for one in (flags.trips or "1").split(","))
    launch = Launch(grid=flags.grid or 1, trips=trips, flop=flags.flop, memory_bytes=flags.bytes)
    return TimeQuestion(system=flags.system, launch=launch, shape=shape)


def _count(flag: str, text: str) -> int:
    """Return a positive number of a list."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise InvalidSpecError(
            f"--{flag} has {repr_for_error(text.strip())}, which is no number of 1 or more"
        )
    return int(text)


def target_of_system(system: str) -> str:
    """Return the target of the GPU of a system."""
    from perfatlas.hardware import resolve_system
    from perfatlas.lab.tune import target_of

    return target_of(resolve_system(system).device)


def add_times(found: Sequence[Inspection], ask: TimeQuestion, own: LabKernel | None) -> None:
    """Add the time of each kernel to its row, and what makes it slow to its warnings.

    Args:
        found: Inspections of the files, the asked one first.
        ask: Where, and how it is launched.
        own: The kernel of perfatlas that the first file is.
    """
    from perfatlas.hardware import resolve_system
    from perfatlas.lab import tune

    device = resolve_system(ask.system).device
    for inspection in found:
        for row, kernel in zip(inspection.rows, inspection.kernels, strict=True):
            designed = []
            if ask.shape is not None and own is not None and inspection is found[0]:
                designed = tune.registry_demands(own.name, ask.shape, device)
            times, warnings = tune.time_compiled(kernel, device, ask.launch, designed)
            row.update(times)
            row["warnings"] += warnings
            if designed:
                row.update(tune.compiler_loss(kernel, designed, device))


def time_facts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the time of a kernel by label."""
    low, high = _time(row["time_s_low"]), _time(row["time_s_high"])
    facts = {
        "time": f"{_time(row['time_s'])} [{low} to {high}], limited by {row['limiting_unit']}",
        "units": ", ".join(
            f"{one['unit']} {format_share(one['share'])}" for one in row["units"][:UNITS]
        ),
        "blocks spend": ", ".join(
            f"{format_share(one['share'])} on {one['stall']}" for one in row["stalls"][:UNITS]
        ),
    }
    if "design_time_s" in row:
        causes = row["compiler_loss_from"] or "no single cause"
        why = f": {causes}" if row["compiler_loss"] > 1.0 else ""
        facts["design"] = (
            f"{_time(row['design_time_s'])}; as compiled {row['compiler_loss']:.2f} times that{why}"
        )
    return facts


def notes(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the times and warnings of kernels as lines for a compiler team."""
    lines = []
    for row in rows:
        lines.append(f"{row['function']} for {row['target']}")
        lines += [f"  {label}: {text}" for label, text in time_facts(row).items()]
        lines += [f"  warning: {text}" for text in row["warnings"]]
    return lines


def _time(time_s: float) -> str:
    return format_quantity(time_s, "s", exact=False)
