from .events import (
    advance as advance,
)
from .outages import (
    CRASH as CRASH,
    DRAIN as DRAIN,
    RETURN as RETURN,
)
