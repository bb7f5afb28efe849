"""Fields of goodput stragglers."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from perfatlas.vocabulary.fields.clusters import GPUS, Duration
from perfatlas.vocabulary.fields.numbers import Count, Number
from perfatlas.vocabulary.fields.rows import Row, group

Spread = Annotated[float, Number(unit="fraction", at_least=0.0, at_most=1.0)]


@group("GPUs", 1)
class SynchronousGpus:
    """GPUs that synchronize in each step."""

    gpus: Annotated[Count, replace(GPUS, text="GPUs that synchronize.", default="")]
    persistent_cv: Annotated[
        Spread, Row("Coefficient of variation between GPUs, constant over steps.")
    ] = 0.0
    transient_cv: Annotated[
        Spread, Row("Coefficient of variation of one GPU from step to step.")
    ] = 0.0
    synchronisations: Annotated[Count, Row("Synchronizations per step, at equal intervals.")] = 1
    step_time_s: Annotated[Duration | None, Row("Step time of an average GPU.")] = None
