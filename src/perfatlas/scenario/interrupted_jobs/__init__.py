"""A job under failures: its interruptions, training step, fleet and recovery strategies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.interrupted_jobs.changed_jobs import (
        Gains as Gains,
        single_changes as single_changes,
    )
    from perfatlas.scenario.interrupted_jobs.interruptions import (
        Interruptions as Interruptions,
        bucket_rows as bucket_rows,
        frequency as frequency,
        interruptions_of as interruptions_of,
        lost_hours as lost_hours,
        simple_assumptions as simple_assumptions,
    )
    from perfatlas.scenario.interrupted_jobs.job_energy import with_energy as with_energy
    from perfatlas.scenario.interrupted_jobs.job_fields import (
        FleetGoodput as FleetGoodput,
        Goodput as Goodput,
        SimpleGoodput as SimpleGoodput,
        SpareNodes as SpareNodes,
    )
    from perfatlas.scenario.interrupted_jobs.job_on_fleet import (
        FleetJob as FleetJob,
        fleet_job as fleet_job,
    )
    from perfatlas.scenario.interrupted_jobs.recovery_strategies import (
        Strategies as Strategies,
        Tried as Tried,
        tried_strategies as tried_strategies,
    )
    from perfatlas.scenario.interrupted_jobs.remarks_on_fleets import (
        check_date as check_date,
        deadline_probability as deadline_probability,
        deadline_remarks as deadline_remarks,
        fleet_remarks as fleet_remarks,
    )
    from perfatlas.scenario.interrupted_jobs.replicated_job import (
        simulated_goodput as simulated_goodput,
    )
    from perfatlas.scenario.interrupted_jobs.results_on_fleets import (
        closed_form_text as closed_form_text,
        ended_shares as ended_shares,
        fleet_assumptions as fleet_assumptions,
        fleet_results as fleet_results,
        goodput_ends as goodput_ends,
        most_replicas as most_replicas,
    )
    from perfatlas.scenario.interrupted_jobs.seeds import (
        over_seeds as over_seeds,
        seeds_of as seeds_of,
    )
    from perfatlas.scenario.interrupted_jobs.step_facts import (
        StepFacts as StepFacts,
        measured_step as measured_step,
        of_system as of_system,
        topology_notes as topology_notes,
    )
    from perfatlas.scenario.interrupted_jobs.training_of_job import (
        PredictedStep as PredictedStep,
        predicted_step as predicted_step,
        with_training as with_training,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
