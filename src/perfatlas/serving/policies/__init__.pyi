from .sglang import (
    forget_ratio as forget_ratio,
    schedule_sglang as schedule_sglang,
)
from .sglang_decode import (
    schedule_sglang_decode as schedule_sglang_decode,
)
from .trtllm import (
    schedule_trtllm as schedule_trtllm,
)
from .vllm import (
    schedule_vllm as schedule_vllm,
)
