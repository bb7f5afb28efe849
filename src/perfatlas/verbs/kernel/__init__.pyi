from .answer import (
    kernel_attention as kernel_attention,
    kernel_columns as kernel_columns,
    kernel_gemm as kernel_gemm,
    kernel_moe as kernel_moe,
)
from .columns import (
    format_of as format_of,
)
from .priced import (
    kernel_engine as kernel_engine,
)
from .rows import (
    Answered as Answered,
    answer_columns as answer_columns,
)
