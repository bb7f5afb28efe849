from .answer import (
    kernel_attention as kernel_attention,
    kernel_gemm as kernel_gemm,
    kernel_moe as kernel_moe,
)
from .operator_answer import (
    OperatorReader as OperatorReader,
)
