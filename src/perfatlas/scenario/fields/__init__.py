"""Fields of a scenario and of its traffic, as a user writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.fields.answered_rows import (
        Answered as Answered,
        answer_columns as answer_columns,
        columns_of as columns_of,
        grouping_key as grouping_key,
    )
    from perfatlas.scenario.fields.cache_tiers import (
        TierSizes as TierSizes,
        tier_results as tier_results,
        tier_sizes as tier_sizes,
    )
    from perfatlas.scenario.fields.complete import (
        complete_scenario as complete_scenario,
        plain_values as plain_values,
        resolved_name as resolved_name,
        resolved_names as resolved_names,
    )
    from perfatlas.scenario.fields.input_fields import (
        GPUS_STATED as GPUS_STATED,
        InputFields as InputFields,
    )
    from perfatlas.scenario.fields.operation import (
        shared_fields as shared_fields,
        with_kind_engines as with_kind_engines,
    )
    from perfatlas.scenario.fields.replica_kinds import (
        ReplicaKind as ReplicaKind,
        kind_scenarios as kind_scenarios,
    )
    from perfatlas.scenario.fields.traffic import (
        TRAFFIC_NAMES as TRAFFIC_NAMES,
        Traffic as Traffic,
        parse_traffic as parse_traffic,
    )
    from perfatlas.scenario.fields.unused import (
        no_effect_sentence as no_effect_sentence,
        refuse_unused as refuse_unused,
        unused_warnings as unused_warnings,
    )
    from perfatlas.scenario.fields.vocabulary import (
        FIELD_NAMES as FIELD_NAMES,
        NOT_OF_GRAPHS as NOT_OF_GRAPHS,
        OF_TOKENS as OF_TOKENS,
        ONE_PASS as ONE_PASS,
        WORKER_POOLS as WORKER_POOLS,
        Scenario as Scenario,
        default_engines as default_engines,
        generation_error as generation_error,
        graph_defaults as graph_defaults,
        graph_error as graph_error,
        parse_scenario as parse_scenario,
        system_engine as system_engine,
        tokens_error as tokens_error,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
