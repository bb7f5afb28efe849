from .physics import (
    KEY_SCORES_DECODE_SHAPE as KEY_SCORES_DECODE_SHAPE,
)
