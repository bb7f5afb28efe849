from .answer import (
    collective as collective,
)
