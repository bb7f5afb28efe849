"""The priced record: costs of operators, and how each of its columns combines and composes."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.pricing.amounts import exposed, reduce, scaled, total
    from perfatlas.pricing.columns import (
        Column, Composition, Quantity, choose, columns_of, following_clock, join, merge,
        of_one_operator, scatter, select, take, unpriced, write,
    )
    from perfatlas.pricing.record import COMMUNICATION, HOST, STREAM_NAMES, TIERS, PricedOperators
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
