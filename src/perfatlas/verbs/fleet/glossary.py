"""Plain-language times, rates and a glossary for fleet pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import DAY_S, HOUR_S, counted
from perfatlas.report.pages import Section, Table
from perfatlas.report.text import format_number

if TYPE_CHECKING:
    from collections.abc import Iterable

# unit to its seconds and the smallest number shown in it
LENGTHS: Final = {
    "year": (365.25 * DAY_S, 2.0),
    "day": (DAY_S, 1.0),
    "hour": (HOUR_S, 1.0),
    "minute": (60.0, 1.0),
    "second": (1.0, 0.0),
}
PERIODS: Final = (("day", 1.0), ("week", 7.0), ("month", 30.4375), ("year", 365.25))
ALWAYS: Final = (
    ("GPU", "the chip that does the arithmetic; a machine holds several"),
    ("job", "a computation on many GPUs; when one of them fails, all stop"),
    ("checkpoint", "a saved state of the job, from which it restarts after a failure"),
    ("repair", "the time from a failure until the machine can be used again"),
    ("on average", "the mean; single values may be much shorter or longer"),
)
# Source: sacct(1), JOB STATE CODES; NVIDIA/dcgm-exporter, default-counters.csv. As fits name them.
CAUSES: Final = {
    "host_node_fail": "a machine stopped answering the scheduler",
    "host_boot_fail": "a machine did not start",
    "host_launch_failed": "a machine could not start the job",
    "host_reconfig_fail": "a machine could not be reconfigured for the job",
    "job_failed": "the job ended with an error of its own or of the infrastructure",
    "job_requeued": "the job was put back into the queue",
    "job_timeout": "the job reached its time limit",
    "job_cancelled": "the job was cancelled",
    "job_deadline": "the job could not finish by its deadline",
    "job_out_of_memory": "the job ran out of memory",
    "job_preempted": "the job was preempted by another one",
    "job_revoked": "the job ran on another cluster instead",
    "hbm_row_remap_failure": "a bad row of memory could not be replaced by a spare one",
    "hbm_uncorrectable_remapped_row": "a bad row of memory was replaced by a spare one",
}
WHERE_MET: Final = {
    "hbm|hbm3": ("HBM", "the memory beside the chip of a GPU"),
    "sram": ("SRAM", "the small, fast memory inside the chip of a GPU"),
    "ecc": ("ECC", "error-correcting code: extra bits that detect and correct memory errors"),
    "nic": ("NIC", "network interface card, which connects a machine to the network"),
    "nvlink": ("NVLink", "the direct wires between GPUs"),
    "network|switch": ("switch", "a device that connects machines with one another"),
    "nccl": (
        "NCCL",
        "the library for communication between GPUs; its watchdog stops a job that hangs",
    ),
    "xid": ("Xid", "the number of an error in the log of NVIDIA's driver"),
    "sdc|silent": ("silent data corruption", "results are wrong without an error message"),
    "off the bus": ("off the bus", "the machine no longer sees its GPU"),
    "ssd": ("SSD", "the disk of a machine"),
}


def in_words(name: str, meaning: str) -> str:
    """Return the plain-language description of a cause, "" for none.

    Args:
        name: Component and cause, as in a fit.
        meaning: Description in its source, "" for none.

    Example:
        >>> from perfatlas.verbs.fleet.glossary import in_words
        >>> in_words("host_node_fail", ""), in_words("gpu_xid_79", "fallen off the bus")
        ('a machine stopped answering the scheduler', 'fallen off the bus')
    """
    return meaning or CAUSES.get(name, "")


def spelled_time(seconds: float, unit: str = "") -> str:
    """Return a time with its unit as a word.

    Args:
        seconds: A time [s].
        unit: One of `LENGTHS`; by default the largest suitable one.

    Example:
        >>> from perfatlas.verbs.fleet.glossary import spelled_time
        >>> spelled_time(DAY_S), spelled_time(11000.0), spelled_time(11000.0, "day")
        ('1 day', '3.06 hours', '0.127 days')
    """
    unit = unit or unit_of(seconds)
    number = format_number(float(f"{seconds / LENGTHS[unit][0]:.3g}"))
    return counted(1, unit) if number == "1" else f"{number} {unit}s"


def unit_of(seconds: float) -> str:
    """Return the largest suitable unit of a time.

    Args:
        seconds: A time [s].

    Example:
        >>> from perfatlas.verbs.fleet.glossary import unit_of
        >>> unit_of(3600.0), unit_of(4e7), unit_of(7e7), unit_of(0.0)
        ('hour', 'day', 'year', 'second')
    """
    return next(unit for unit, (size, least) in LENGTHS.items() if seconds >= least * size)


def spelled_rate(per_day: float) -> str:
    """Return a rate per day, week, month or year, whichever is suitable.

    Args:
        per_day: Rate [1/d].

    Example:
        >>> from perfatlas.verbs.fleet.glossary import spelled_rate
        >>> spelled_rate(7.88), spelled_rate(0.00379), spelled_rate(1e-5), spelled_rate(0.0)
        ('7.88 times a day', '1.38 times a year', 'once in 274 years', 'never')
    """
    if not per_day:
        return "never"
    for period, days in PERIODS:
        if per_day * days >= 1.0:
            number = format_number(per_day * days)
            return f"once a {period}" if number == "1" else f"{number} times a {period}"
    years = format_number(1.0 / (per_day * PERIODS[-1][1]))
    return "once a year" if years == "1" else f"once in {years} years"


def glossary(texts: Iterable[str | None]) -> Section:
    """Return the glossary of a page: some terms always, others where a text contains them.

    Args:
        texts: Names and descriptions on the page, None among them.
    """
    whole = " ".join(text for text in texts if text).lower()
    met = [
        term
        for words, term in WHERE_MET.items()
        if re.search(rf"(?<![a-z])(?:{words})(?![a-z])", whole)
    ]
    table = Table(head=("term", "meaning"), rows=[*ALWAYS, *met], text_columns=(0, 1))
    return Section(title="Glossary", blocks=[table])
