from .communication import (
    Exchange as Exchange,
    rank_exchanges as rank_exchanges,
)
from .operators import (
    EMBEDDING as EMBEDDING,
    HEAD as HEAD,
    Part as Part,
    Row as Row,
    model_operators as model_operators,
    segments_of as segments_of,
)
from .parameters import (
    RankParameters as RankParameters,
    rank_parameters as rank_parameters,
)
from .saved import (
    saved_bytes as saved_bytes,
)
