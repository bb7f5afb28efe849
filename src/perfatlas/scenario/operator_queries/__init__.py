"""Queries for one operator or collective: reading, checks, prices and results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.scenario.operator_queries.collectives import (
        COLLECTIVE_SIZES as COLLECTIVE_SIZES,
        CollectiveInputs as CollectiveInputs,
        PricedCollectiveQueries as PricedCollectiveQueries,
        price_collective_queries as price_collective_queries,
        read_collective as read_collective,
    )
    from perfatlas.scenario.operator_queries.inputs import (
        AttentionDesignInputs as AttentionDesignInputs,
        AttentionInputs as AttentionInputs,
        DesignInputs as DesignInputs,
        ElementwiseInputs as ElementwiseInputs,
        GemmDesignInputs as GemmDesignInputs,
        GemmInputs as GemmInputs,
        OperatorInputs as OperatorInputs,
        read_attention_design as read_attention_design,
        read_operator as read_operator,
    )
    from perfatlas.scenario.operator_queries.kernels import eager_note as eager_note
    from perfatlas.scenario.operator_queries.operator_columns import (
        ROWS as ROWS,
        appends as appends,
        fixed_tile as fixed_tile,
    )
    from perfatlas.scenario.operator_queries.priced import (
        QUERIES as QUERIES,
        READERS as READERS,
        PricedQueries as PricedQueries,
        backward_passes as backward_passes,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
