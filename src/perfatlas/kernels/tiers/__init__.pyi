from .pricing import (
    Tier as Tier,
    price_at_clocks as price_at_clocks,
    price_operators as price_operators,
)
from .quantized_rows import (
    holds_quantization as holds_quantization,
)
