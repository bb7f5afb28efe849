from .from_fields import (
    flags_of as flags_of,
    set_flags as set_flags,
    takes_fields as takes_fields,
)
from .output import (
    MANY as MANY,
    SWITCH as SWITCH,
    Count as Count,
    File as File,
    OutputFlags as OutputFlags,
    Seconds as Seconds,
    changed_flags as changed_flags,
    default as default,
)
from .pages import (
    PageFlags as PageFlags,
    PageScript as PageScript,
)
