"""Queries for one operator or collective: reading, checks, prices and results."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.operator_queries.collectives import (
        COLLECTIVE_ASSUMPTIONS, COLLECTIVE_SIZES, COLLECTIVE_WARNINGS, CollectiveInputs,
        price_collective_queries,
    )
    from perfatlas.scenario.operator_queries.inputs import (
        AttentionDesignInputs, AttentionInputs, AttentionTuneInputs, DesignInputs,
        ElementwiseInputs, ExpertTuneInputs, GemmDesignInputs, GemmInputs, GemmTuneInputs,
        ModelTuneInputs, NormTuneInputs, OperatorInputs, ReduceTuneInputs,
    )
    from perfatlas.scenario.operator_queries.kernels import eager_note
    from perfatlas.scenario.operator_queries.libraries import LIBRARIES
    from perfatlas.scenario.operator_queries.operator_columns import ROWS, appends, fixed_tile
    from perfatlas.scenario.operator_queries.priced import (
        QUERIES, READERS, PricedQueries, backward_passes,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
