"""Flags shared by several commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.commands.flags.chart_titles import (
        CHART_TITLES as CHART_TITLES,
        may_be_title as may_be_title,
    )
    from perfatlas.commands.flags.from_fields import (
        FlagsSignature as FlagsSignature,
        flags_of as flags_of,
        listed_names as listed_names,
        positional_fields as positional_fields,
        set_flags as set_flags,
        takes_fields as takes_fields,
    )
    from perfatlas.commands.flags.help import print_help as print_help
    from perfatlas.commands.flags.output import (
        OUTPUT as OUTPUT,
        RARE as RARE,
        SWITCH as SWITCH,
        WITHOUT_NEGATIVE_FLAG as WITHOUT_NEGATIVE_FLAG,
        Count as Count,
        File as File,
        Output as Output,
        OutputFlags as OutputFlags,
        Seconds as Seconds,
        WrittenFile as WrittenFile,
        changed_flags as changed_flags,
        default as default,
    )
    from perfatlas.commands.flags.pages import PageFlags as PageFlags, PageScript as PageScript
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
