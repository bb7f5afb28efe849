"""The price of one operator on one device."""

from __future__ import annotations

from perfatlas.verbs.kernel.answer import kernel_attention, kernel_gemm, kernel_moe
from perfatlas.verbs.kernel.operator_answer import OperatorReader

__all__ = [
    "OperatorReader",
    "kernel_attention",
    "kernel_gemm",
    "kernel_moe",
]
