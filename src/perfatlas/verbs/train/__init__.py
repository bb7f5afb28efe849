"""The time of a training step, its memory and where the time goes."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.train.answer import (
        train, train_columns, training_power, training_timeline,
    )
    from perfatlas.verbs.train.layouts import search_training
    from perfatlas.verbs.train.blocks import training_page
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
