"""The priced record: costs of operators, and how each of its columns combines and composes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.pricing.amounts import (
        exposed as exposed,
        reduce as reduce,
        scaled as scaled,
        total as total,
    )
    from perfatlas.pricing.columns import (
        Column as Column,
        Composition as Composition,
        Quantity as Quantity,
        choose as choose,
        columns_of as columns_of,
        following_clock as following_clock,
        join as join,
        merge as merge,
        of_one_operator as of_one_operator,
        scatter as scatter,
        select as select,
        take as take,
        unpriced as unpriced,
        write as write,
    )
    from perfatlas.pricing.record import (
        COMMUNICATION as COMMUNICATION,
        HOST as HOST,
        STREAM_NAMES as STREAM_NAMES,
        TIERS as TIERS,
        PricedOperators as PricedOperators,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
