"""Training engines: overlaps, host time and measured efficiencies, as dated data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.training.profiles.catalog import (
        resolve_training_engine as resolve_training_engine,
        training_engine_ids as training_engine_ids,
        training_engine_names as training_engine_names,
        training_engines as training_engines,
    )
    from perfatlas.training.profiles.measured import highest_mfu as highest_mfu
    from perfatlas.training.profiles.profile import (
        END_LAYERS as END_LAYERS,
        PARALLEL_SIZES as PARALLEL_SIZES,
        TrainingEngine as TrainingEngine,
        lower_limit_of as lower_limit_of,
        unseen_release as unseen_release,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
