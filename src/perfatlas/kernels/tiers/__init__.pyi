from .measured import (
    holds_quantization as holds_quantization,
)
from .pricing import (
    PricedOperators as PricedOperators,
    Tier as Tier,
    price_operators as price_operators,
)
