"""The time of one operator on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.kernel.answer import (
        kernel_attention as kernel_attention,
        kernel_columns as kernel_columns,
        kernel_conv as kernel_conv,
        kernel_elementwise as kernel_elementwise,
        kernel_embedding as kernel_embedding,
        kernel_gemm as kernel_gemm,
        kernel_moe as kernel_moe,
        kernel_norm as kernel_norm,
        kernel_softmax as kernel_softmax,
    )
    from perfatlas.verbs.kernel.design import (
        kernel_design_attention as kernel_design_attention,
        kernel_design_gemm as kernel_design_gemm,
    )
    from perfatlas.verbs.kernel.inspect import kernel_inspect as kernel_inspect
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
