from .physics import (
    KEY_SELECTION_SHAPE as KEY_SELECTION_SHAPE,
)
