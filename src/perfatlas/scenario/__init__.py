"""The vocabulary, and the one path from a scenario to its answer."""

from __future__ import annotations

from perfatlas.scenario.cache_tiers import tier_results
from perfatlas.scenario.capacity import cache_capacity
from perfatlas.scenario.deployment import Deployment, Priced, deployment
from perfatlas.scenario.disaggregated import POOLS, PoolRates, asked_of_pools, split_pools
from perfatlas.scenario.estimate_warnings import LEAVES_OUT, question_warnings
from perfatlas.scenario.evaluate import Evaluation, evaluate, select, step_context
from perfatlas.scenario.evidence import (
    FORMULA,
    engine_assumptions,
    merged_evidence,
    question_evidence,
    step_evidence,
)
from perfatlas.scenario.groups import Groups
from perfatlas.scenario.heterogeneous_replicas import (
    kind_column,
    kind_results,
    kinds_evidence,
    of_all,
    parts_of,
    resolved_kinds,
)
from perfatlas.scenario.memory import does_not_fit
from perfatlas.scenario.rate_stability import Flow, behind, flow, needed_units, unfilled
from perfatlas.scenario.replica_kinds import shared_fields
from perfatlas.scenario.replica_results import operated_results
from perfatlas.scenario.resolved_scenario import Question, has_experts, plan_sizes, resolve_question
from perfatlas.scenario.results import (
    MEMORY,
    memory_columns,
    plain_column,
    plain_results,
    result_columns,
)
from perfatlas.scenario.scenario_checks import read_scenario
from perfatlas.scenario.service import (
    Service,
    fleet_of,
    price_ends,
    reseeded,
    run_traffic,
    service,
    slowed,
)
from perfatlas.scenario.serving_formula import (
    ClientSide,
    Joining,
    Latencies,
    aggregated_latencies,
    at_client,
    joining_s,
    pipelined_s,
    static_latencies,
)
from perfatlas.scenario.simulation_remarks import (
    said_of_client,
    said_of_interval,
    said_of_seeds,
    traffic_warnings,
)
from perfatlas.scenario.steady_state import are_pools_simulated, is_simulated, steady_state
from perfatlas.scenario.traffic import TRAFFIC_NAMES, Arriving, Traffic, arriving, parse_traffic
from perfatlas.scenario.unused_options import idle_remarks, refuse_unread
from perfatlas.scenario.vocabulary import (
    FIELD_NAMES,
    Count,
    Scenario,
    check_distribution,
    sentences,
)

__all__ = [
    "FIELD_NAMES",
    "FORMULA",
    "LEAVES_OUT",
    "MEMORY",
    "POOLS",
    "TRAFFIC_NAMES",
    "Arriving",
    "ClientSide",
    "Count",
    "Deployment",
    "Evaluation",
    "Flow",
    "Groups",
    "Joining",
    "Latencies",
    "PoolRates",
    "Priced",
    "Question",
    "Scenario",
    "Service",
    "Traffic",
    "aggregated_latencies",
    "are_pools_simulated",
    "arriving",
    "asked_of_pools",
    "at_client",
    "behind",
    "cache_capacity",
    "check_distribution",
    "deployment",
    "does_not_fit",
    "engine_assumptions",
    "evaluate",
    "fleet_of",
    "flow",
    "has_experts",
    "idle_remarks",
    "is_simulated",
    "joining_s",
    "kind_column",
    "kind_results",
    "kinds_evidence",
    "memory_columns",
    "merged_evidence",
    "needed_units",
    "of_all",
    "operated_results",
    "parse_traffic",
    "parts_of",
    "pipelined_s",
    "plain_column",
    "plain_results",
    "plan_sizes",
    "price_ends",
    "question_evidence",
    "question_warnings",
    "read_scenario",
    "refuse_unread",
    "reseeded",
    "resolve_question",
    "resolved_kinds",
    "result_columns",
    "run_traffic",
    "said_of_client",
    "said_of_interval",
    "said_of_seeds",
    "select",
    "sentences",
    "service",
    "shared_fields",
    "slowed",
    "split_pools",
    "static_latencies",
    "steady_state",
    "step_context",
    "step_evidence",
    "tier_results",
    "traffic_warnings",
    "unfilled",
]
