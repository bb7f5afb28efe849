"""Jobs that share a cluster: its nodes, the jobs, failures and the steady state."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.cluster_schedules.cluster_energy import (
        PARTS, energy_notes, energy_results, with_energy,
    )
    from perfatlas.scenario.cluster_schedules.cluster_of_fields import unused_system
    from perfatlas.scenario.cluster_schedules.jobs_of_fields import largest_job
    from perfatlas.scenario.cluster_schedules.prepared_schedule import (
        Prepared, prepare, response_of,
    )
    from perfatlas.scenario.cluster_schedules.schedule_fields import (
        JOB_NAMES, ScheduleFields, parse_schedule, variants,
    )
    from perfatlas.scenario.cluster_schedules.site import Site, SitePower, site_power
    from perfatlas.scenario.cluster_schedules.steady_stream import (
        JobStream, is_stream, sized_stream, transient_note, unfilled_warning,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
