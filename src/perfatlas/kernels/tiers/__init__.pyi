from .pricing import (
    ClockPrices as ClockPrices,
    GatheredOperators as GatheredOperators,
    Tier as Tier,
    gather_operators as gather_operators,
    price_operators as price_operators,
)
from .quantized_rows import (
    holds_quantization as holds_quantization,
)
