from .chart_titles import (
    CHART_TITLES as CHART_TITLES,
    may_be_title as may_be_title,
)
from .from_fields import (
    FlagsSignature as FlagsSignature,
    flags_of as flags_of,
    set_flags as set_flags,
    takes_fields as takes_fields,
)
from .output import (
    MANY as MANY,
    OUTPUT as OUTPUT,
    SWITCH as SWITCH,
    Count as Count,
    File as File,
    Output as Output,
    OutputFlags as OutputFlags,
    Seconds as Seconds,
    WrittenFile as WrittenFile,
    changed_flags as changed_flags,
    default as default,
)
from .pages import (
    PageFlags as PageFlags,
    PageScript as PageScript,
)
