from .answer import (
    compare as compare,
)
