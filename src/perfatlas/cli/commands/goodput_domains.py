"""`perfatlas goodput domains` and `goodput stragglers`: what one GPU costs all that need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from cyclopts import Group, Parameter

from perfatlas.cli.commands.goodput_answer import Verb, answer_of
from perfatlas.cli.flags import Count, OutputFlags, default, given

_GPUS: Final = Group("GPUs", sort_key=1)
_OUTPUT: Final = Group("Output", sort_key=7)
DOMAINS_EXAMPLE: Final = "perfatlas goodput domains --domain-size 72 --unavailability 0.001"
STRAGGLERS_EXAMPLE: Final = "perfatlas goodput stragglers --gpus 16384 --persistent-cv 0.01"


@Parameter(name="*", group=_GPUS)
@dataclass(frozen=True, kw_only=True)
class DomainFlags:
    """Domains of GPUs, of which some are out.

    Args:
        domain_size: GPUs of a domain, such as an NVLink domain of 72.
        needed: GPUs of it that do the work; the others stand by. By default one dead GPU idles it.
        unavailability: Share of time in which a GPU is out, such as 0.001.
        gpu_mtbf_s: Mean seconds between failures of one GPU, with --repair-s in its place.
        repair_s: Mean seconds until a failed GPU is back.
        gpus: GPUs of a job that do work: asks how often it has all its domains.
        spares: Domains beside those of the job.
    """

    domain_size: Count = None
    needed: Annotated[Count, default("all of them")] = None
    unavailability: float | None = None
    gpu_mtbf_s: float | None = None
    repair_s: float | None = None
    gpus: Count = None
    spares: Annotated[Count, default("0")] = None


@Parameter(name="*", group=_GPUS)
@dataclass(frozen=True, kw_only=True)
class StragglerFlags:
    """GPUs that wait for the slowest of them.

    Args:
        gpus: How many wait for one another.
        persistent_cv: Standard deviation between GPUs that lasts, over the mean step.
        transient_cv: Standard deviation of one GPU from step to step, over the mean step.
        synchronisations: Times in a step that all wait, after equal pieces of it.
        step_time_s: Seconds of a step of an average GPU.
    """

    gpus: Count = None
    persistent_cv: Annotated[float | None, default("0")] = None
    transient_cv: Annotated[float | None, default("0")] = None
    synchronisations: Annotated[Count, default("1")] = None
    step_time_s: float | None = None


def domains(
    *,
    flags: DomainFlags | None = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Return the exit code of an answer.

    Args:
        flags: The domains.
        output: Where the answer goes.
    """
    import perfatlas
    from perfatlas.verbs.goodput import DOMAIN_NAMES

    verb = Verb(
        command="goodput domains",
        face=perfatlas.goodput_domains,
        names=DOMAIN_NAMES,
        first="usable_share",
        needed=("domain_size",),
        example=DOMAINS_EXAMPLE,
    )
    return answer_of(verb, given(flags or DomainFlags()), output or OutputFlags())


def stragglers(
    *,
    flags: StragglerFlags | None = None,
    output: Annotated[OutputFlags | None, Parameter(group=_OUTPUT)] = None,
) -> int:
    """Return the exit code of an answer.

    Args:
        flags: The GPUs.
        output: Where the answer goes.
    """
    import perfatlas
    from perfatlas.verbs.goodput import STRAGGLER_NAMES

    verb = Verb(
        command="goodput stragglers",
        face=perfatlas.goodput_stragglers,
        names=STRAGGLER_NAMES,
        first="step_slowdown",
        needed=("gpus",),
        example=STRAGGLERS_EXAMPLE,
    )
    return answer_of(verb, given(flags or StragglerFlags()), output or OutputFlags())
