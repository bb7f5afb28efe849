from .columns import (
    Column as Column,
    Composition as Composition,
    choose as choose,
    columns_of as columns_of,
    exposed as exposed,
    join as join,
    of_one_operator as of_one_operator,
    scatter as scatter,
    select as select,
    take as take,
    total as total,
    unpriced as unpriced,
    write as write,
)
from .record import (
    COMMUNICATION as COMMUNICATION,
    HOST as HOST,
    STREAM_NAMES as STREAM_NAMES,
    TIERS as TIERS,
    PricedOperators as PricedOperators,
)
