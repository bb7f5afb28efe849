"""Deployments of a scenario, estimated and simulated, and remarks on their results."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.deployments.accuracies import (
        QuantizedModel, accuracy_results, quantized, quantized_model,
    )
    from perfatlas.scenario.deployments.arrivals import ResolvedTraffic, resolve_traffic
    from perfatlas.scenario.deployments.engine_deployment import (
        Deployment, Priced, cache_capacity, deployment, reserved_blocks_note,
    )
    from perfatlas.scenario.deployments.closed_loop import (
        RequestSample, latencies_from_start, steady_state,
    )
    from perfatlas.scenario.deployments.costs import cost_notes
    from perfatlas.scenario.deployments.energy_of_runs import (
        Spent, cost_results, energy_results, known_energy, mean_power, meters_without_power,
        run_energy, run_prices, spent_energy, unknown_power,
    )
    from perfatlas.scenario.deployments.candidate_remarks import (
        UNSEEN, Remarked, network_remarks,
    )
    from perfatlas.scenario.deployments.estimate_remarks import LOSSES, POWER
    from perfatlas.scenario.deployments.estimated_rows import (
        GRAPH_PHASE, estimate_rows, evaluate_one, evaluate_pools, evaluated_pools, memory_of,
        table_cells,
    )
    from perfatlas.scenario.deployments.estimation import estimate_of, step_costs
    from perfatlas.scenario.deployments.generated import most_in_time
    from perfatlas.scenario.deployments.heterogeneous_replicas import (
        common_entries, kind_column, kinds_evidence, resolved_kinds,
    )
    from perfatlas.scenario.deployments.load import OfferedLoad, has_steady_rate, offered_load
    from perfatlas.scenario.deployments.rate_stability import (
        Flow, flow, growing_queue, required_requests, too_short,
    )
    from perfatlas.scenario.deployments.results_of_traffic import (
        containing_predictions, end_of_interval, item_results, item_row, traffic_results,
    )
    from perfatlas.scenario.deployments.services import (
        Service, holds_all, reseeded, run_traffic, service,
    )
    from perfatlas.scenario.deployments.simulation_remarks import (
        client_note, interval_note, seeds_note, traffic_warnings,
    )
    from perfatlas.scenario.deployments.step_interval import StepScale, price_ends, slowed
    from perfatlas.scenario.deployments.traffic_facts import (
        draws, no_effect_remarks, refuse_unused_options,
    )
    from perfatlas.scenario.deployments.typical_steps import typical_step_rows
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
