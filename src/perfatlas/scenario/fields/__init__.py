"""Fields of a scenario and of its traffic, as a user writes them."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.fields.answered_rows import (
        Answered, answer_columns, number_columns,
    )
    from perfatlas.scenario.fields.cache_tiers import TierSizes, tier_results, tier_sizes
    from perfatlas.scenario.fields.columns import (
        BoolArray, Columns, FieldColumn, Table, constant_column, distinct_rows, number_column,
        unset,
    )
    from perfatlas.scenario.fields.complete import (
        complete_scenario, plain_values, resolved_name, resolved_names,
    )
    from perfatlas.scenario.fields.disputed import (
        left_out_notes, rows_within_disputed_ends, within_disputed_ends,
    )
    from perfatlas.scenario.fields.input_fields import InputFields, columns_of
    from perfatlas.scenario.fields.operation import (
        ReplicaKind, kind_scenarios, shared_fields, with_kind_engines,
    )
    from perfatlas.scenario.fields.rules import (
        IDLE_POWER_RULE, Refusals, always, no_effect_sentence, refuse_unused, unused_warnings,
        without_effect,
    )
    from perfatlas.scenario.fields.traffic import TRAFFIC_NAMES, Traffic
    from perfatlas.scenario.fields.vocabulary import (
        FIELD_NAMES, NOT_OF_GRAPHS, OF_TOKENS, Scenario,
        generation_error, graph_defaults, graph_error, system_engine, tokens_error,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
