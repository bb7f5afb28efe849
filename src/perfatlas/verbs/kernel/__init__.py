"""The time of one operator on one device."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.kernel.answer import (
        kernel_attention, kernel_columns, kernel_gemm, kernel_moe, kernel_op,
    )
    from perfatlas.verbs.kernel.design import kernel_design_attention, kernel_design_gemm
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
