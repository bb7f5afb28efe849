"""The time of one collective of a group of devices."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.collective.answer import collective, collective_columns
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
