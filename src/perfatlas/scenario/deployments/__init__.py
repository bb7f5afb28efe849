"""Deployments of a scenario, estimated and simulated, and remarks on their results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.deployments.accuracies import (
        QuantizedModel as QuantizedModel,
        accuracy_results as accuracy_results,
        quantized as quantized,
        quantized_model as quantized_model,
    )
    from perfatlas.scenario.deployments.arrivals import (
        ResolvedTraffic as ResolvedTraffic,
        resolve_traffic as resolve_traffic,
    )
    from perfatlas.scenario.deployments.capacity import (
        cache_capacity as cache_capacity,
        reserved_blocks_note as reserved_blocks_note,
    )
    from perfatlas.scenario.deployments.closed_loop import (
        RequestSample as RequestSample,
        latencies_from_start as latencies_from_start,
        steady_state as steady_state,
    )
    from perfatlas.scenario.deployments.costs import cost_notes as cost_notes
    from perfatlas.scenario.deployments.energy_of_runs import (
        Spent as Spent,
        cost_results as cost_results,
        energy_results as energy_results,
        known_energy as known_energy,
        mean_power as mean_power,
        meters_without_power as meters_without_power,
        run_energy as run_energy,
        run_prices as run_prices,
        spent_energy as spent_energy,
        unknown_power as unknown_power,
    )
    from perfatlas.scenario.deployments.engine_deployment import (
        Deployment as Deployment,
        Priced as Priced,
        deployment as deployment,
    )
    from perfatlas.scenario.deployments.estimate_remarks import (
        losses_notes as losses_notes,
        network_notes as network_notes,
    )
    from perfatlas.scenario.deployments.estimated_rows import (
        GRAPH_PHASE as GRAPH_PHASE,
        EstimatedRows as EstimatedRows,
        evaluate_one as evaluate_one,
        evaluate_pools as evaluate_pools,
        evaluated_pools as evaluated_pools,
        memory_of as memory_of,
    )
    from perfatlas.scenario.deployments.estimation import (
        estimate_of as estimate_of,
        step_costs as step_costs,
    )
    from perfatlas.scenario.deployments.generated import most_in_time as most_in_time
    from perfatlas.scenario.deployments.heterogeneous_replicas import (
        common_entries as common_entries,
        kind_column as kind_column,
        kinds_evidence as kinds_evidence,
        resolved_kinds as resolved_kinds,
    )
    from perfatlas.scenario.deployments.load import (
        OfferedLoad as OfferedLoad,
        has_steady_rate as has_steady_rate,
        offered_load as offered_load,
    )
    from perfatlas.scenario.deployments.rate_stability import (
        Flow as Flow,
        flow as flow,
        growing_queue as growing_queue,
        required_requests as required_requests,
        too_short as too_short,
    )
    from perfatlas.scenario.deployments.results_of_traffic import (
        containing_predictions as containing_predictions,
        end_of_interval as end_of_interval,
        item_results as item_results,
        item_row as item_row,
        traffic_results as traffic_results,
    )
    from perfatlas.scenario.deployments.services import (
        Service as Service,
        holds_all as holds_all,
        reseeded as reseeded,
        run_traffic as run_traffic,
        service as service,
    )
    from perfatlas.scenario.deployments.simulation_remarks import (
        client_note as client_note,
        interval_note as interval_note,
        seeds_note as seeds_note,
        traffic_warnings as traffic_warnings,
    )
    from perfatlas.scenario.deployments.step_interval import (
        StepScale as StepScale,
        price_ends as price_ends,
        slowed as slowed,
    )
    from perfatlas.scenario.deployments.traffic_facts import (
        draws as draws,
        no_effect_remarks as no_effect_remarks,
        refuse_unused_options as refuse_unused_options,
    )
    from perfatlas.scenario.deployments.typical_steps import (
        typical_step_rows as typical_step_rows,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
