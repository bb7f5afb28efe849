"""Fields of goodput domains."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from perfatlas.vocabulary.fields.clusters import GPUS, NODE_REPAIR, SYSTEM, Duration
from perfatlas.vocabulary.fields.conditions import AnySet, NotSet
from perfatlas.vocabulary.fields.numbers import Count, CountOrZero, Number
from perfatlas.vocabulary.fields.rows import Row, group
from perfatlas.vocabulary.fields.subject import SystemName

LARGEST_DOMAIN: Final = 100_000  # GPUs


@group("GPUs", 1)
class GpuDomains:
    """Domains of GPUs, such as NVLink domains, that fail together or with too few working GPUs."""

    domain_size: Annotated[
        Annotated[int, Number(at_least=1, at_most=LARGEST_DOMAIN)] | None,
        Row(
            "GPUs per domain, such as 72 in an NVL72 domain.",
            default="the scale-up domain of system",
            elsewhere=("nvlink_domain", "nvlink_domain_size", "scale_up_size"),
        ),
    ] = None
    system: Annotated[
        SystemName | None,
        replace(
            SYSTEM,
            text="System whose scale-up domain it is, such as gb200.",
            needs=NotSet("domain_size", "sets the domain"),
        ),
    ] = None
    needed: Annotated[
        Count | None,
        Row("GPUs per domain that must work; the others are standby.", "all of them"),
    ] = None
    unavailability: Annotated[
        Annotated[float, Number(unit="fraction", at_least=0.0, below=1.0)] | None,
        Row("Fraction of time a GPU is out of service, such as 0.001."),
    ] = None
    gpu_mtbf_s: Annotated[
        Duration | None,
        Row(
            "Mean time between failures of one GPU, with repair_s instead of unavailability.",
            elsewhere=("mtbf_gpu_s", "gpu_mttf_s"),
        ),
    ] = None
    repair_s: Annotated[
        Duration | None,
        replace(NODE_REPAIR, text="Mean time to repair a failed GPU.", needs=None),
    ] = None
    gpus: Annotated[
        Count | None,
        replace(GPUS, text="Active GPUs of the job, without standby GPUs.", default=""),
    ] = None
    spares: Annotated[CountOrZero | None, Row("Spare domains of the job.", "0", AnySet("gpus"))] = (
        None
    )
