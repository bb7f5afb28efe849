from .splits import (
    fold_of as fold_of,
    power_splits as power_splits,
)
