from .communication import (
    Exchange as Exchange,
    Routes as Routes,
    layer_of as layer_of,
    rank_exchanges as rank_exchanges,
)
from .operators import (
    Part as Part,
    Row as Row,
    Work as Work,
    model_operators as model_operators,
    repeated_shares as repeated_shares,
)
from .parameters import (
    RankParameters as RankParameters,
    rank_parameters as rank_parameters,
)
from .recomputation import (
    RecomputedModules as RecomputedModules,
)
from .routed import (
    expert_kernels as expert_kernels,
)
from .saved import (
    LOGIT_BYTES as LOGIT_BYTES,
    saved_bytes as saved_bytes,
)
from .unfused import (
    dropout_of_residual as dropout_of_residual,
    unfused_attention_kernels as unfused_attention_kernels,
)
