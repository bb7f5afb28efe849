from .physics import (
    STREAMING_SHAPE as STREAMING_SHAPE,
    streaming_time_s as streaming_time_s,
)
