"""Training engines: overlaps, host time and measured efficiencies, as dated data."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.training.profiles.catalog import (
        resolve_training_engine, training_engine_ids, training_engine_names, training_engines,
    )
    from perfatlas.training.profiles.measured import highest_mfu
    from perfatlas.training.profiles.profile import (
        END_LAYERS, PARALLEL_SIZES, TrainingEngine, lower_limit_of, unseen_release,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
