from .from_fields import (
    asks as asks,
    flags_of as flags_of,
    set_flags as set_flags,
)
from .output import (
    MANY as MANY,
    SWITCH as SWITCH,
    Count as Count,
    File as File,
    OutputFlags as OutputFlags,
    Seconds as Seconds,
    default as default,
    given as given,
)
from .pages import (
    PageFlags as PageFlags,
    PageScript as PageScript,
)
