from .answer import (
    kernel_attention as kernel_attention,
    kernel_columns as kernel_columns,
    kernel_elementwise as kernel_elementwise,
    kernel_gemm as kernel_gemm,
    kernel_moe as kernel_moe,
)
