"""Jobs that share a cluster: its nodes, the jobs, failures and the steady state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.cluster_schedules.cluster_energy import (
        PARTS as PARTS,
        energy_notes as energy_notes,
        energy_results as energy_results,
        with_energy as with_energy,
    )
    from perfatlas.scenario.cluster_schedules.cluster_of_fields import (
        unused_system as unused_system,
    )
    from perfatlas.scenario.cluster_schedules.jobs_of_fields import largest_job as largest_job
    from perfatlas.scenario.cluster_schedules.prepared_schedule import (
        Prepared as Prepared,
        prepare as prepare,
        response_of as response_of,
    )
    from perfatlas.scenario.cluster_schedules.schedule_fields import (
        JOB_NAMES as JOB_NAMES,
        Schedule as Schedule,
        parse_schedule as parse_schedule,
        variants as variants,
    )
    from perfatlas.scenario.cluster_schedules.steady_stream import (
        Stream as Stream,
        is_stream as is_stream,
        sized_stream as sized_stream,
        transient_note as transient_note,
        unfilled_warning as unfilled_warning,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
