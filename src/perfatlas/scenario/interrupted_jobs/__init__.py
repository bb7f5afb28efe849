"""A job under failures: its interruptions, training step, fleet and recovery strategies."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.interrupted_jobs.changed_jobs import Gains, single_changes
    from perfatlas.scenario.interrupted_jobs.interruptions import (
        Interruptions, bucket_rows, frequency, interruptions_of, lost_hours, simple_assumptions,
    )
    from perfatlas.scenario.interrupted_jobs.job_energy import with_energy
    from perfatlas.scenario.interrupted_jobs.job_fields import (
        FleetGoodput, Goodput, SimpleGoodput, SpareNodes, over_seeds, seeds_of,
    )
    from perfatlas.scenario.interrupted_jobs.job_on_fleet import FleetJob, fleet_job
    from perfatlas.scenario.interrupted_jobs.recovery_strategies import (
        Strategies, Tried, tried_strategies,
    )
    from perfatlas.scenario.interrupted_jobs.remarks_on_fleets import (
        check_date, deadline_probability, deadline_remarks, fleet_remarks,
    )
    from perfatlas.scenario.interrupted_jobs.replicated_job import simulated_goodput
    from perfatlas.scenario.interrupted_jobs.results_on_fleets import (
        closed_form_text, ended_shares, fleet_assumptions, fleet_results, goodput_ends,
        most_replicas,
    )
    from perfatlas.scenario.interrupted_jobs.step_facts import (
        StepFacts, measured_step, of_system, topology_notes,
    )
    from perfatlas.scenario.interrupted_jobs.training_of_job import (
        PredictedStep, predicted_step, with_training,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
