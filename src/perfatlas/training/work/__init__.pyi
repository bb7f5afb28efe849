from .communication import (
    Exchange as Exchange,
    Routes as Routes,
    rank_exchanges as rank_exchanges,
)
from .experts import (
    busiest_rank as busiest_rank,
)
from .operators import (
    Part as Part,
    Row as Row,
    model_operators as model_operators,
)
from .parameters import (
    RankParameters as RankParameters,
    rank_parameters as rank_parameters,
)
from .saved import (
    LOGIT_BYTES as LOGIT_BYTES,
    saved_bytes as saved_bytes,
)
