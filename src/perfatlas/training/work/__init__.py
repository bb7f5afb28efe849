"""The operators and the communication of one rank in a training step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.training.work.communication import (
        Exchange as Exchange,
        Routes as Routes,
        layer_of as layer_of,
        rank_exchanges as rank_exchanges,
    )
    from perfatlas.training.work.graphs import (
        gradient_time as gradient_time,
        keeping_rows as keeping_rows,
        kernel_rows as kernel_rows,
    )
    from perfatlas.training.work.operators import (
        Part as Part,
        Row as Row,
        Work as Work,
        model_operators as model_operators,
        repeated_shares as repeated_shares,
    )
    from perfatlas.training.work.parameters import (
        RankParameters as RankParameters,
        rank_parameters as rank_parameters,
    )
    from perfatlas.training.work.recomputation import RecomputedModules as RecomputedModules
    from perfatlas.training.work.routed import expert_kernels as expert_kernels
    from perfatlas.training.work.saved import saved_bytes as saved_bytes
    from perfatlas.training.work.tables import (
        table_bytes as table_bytes,
        table_exchanges as table_exchanges,
    )
    from perfatlas.training.work.unfused import (
        dropout_of_residual as dropout_of_residual,
        unfused_attention_kernels as unfused_attention_kernels,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
