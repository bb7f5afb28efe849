"""The operators and the communication of one rank in a training step."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.training.work.communication import Exchange, Routes, layer_of, rank_exchanges
    from perfatlas.training.work.graphs import gradient_time, keeping_rows, kernel_rows
    from perfatlas.training.work.operators import Part, Row, Work, model_operators, repeated_shares
    from perfatlas.training.work.parameters import RankParameters, rank_parameters
    from perfatlas.training.work.recomputation import RecomputedModules
    from perfatlas.training.work.routed import expert_kernels
    from perfatlas.training.work.saved import saved_bytes
    from perfatlas.training.work.tables import table_bytes, table_exchanges
    from perfatlas.training.work.unfused import dropout_of_residual, unfused_attention_kernels
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
