"""Flags shared by several commands."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.commands.flags.chart_titles import CHART_TITLES, may_be_title
    from perfatlas.commands.flags.from_fields import (
        FlagsSignature, flags_of, listed_names, positional_fields, read_words, set_flags,
        takes_fields,
    )
    from perfatlas.commands.flags.help import print_help
    from perfatlas.commands.flags.output import (
        OUTPUT, RARE, SWITCH, WITHOUT_NEGATIVE_FLAG, Count, File, Output, OutputFlags, Seconds,
        WrittenFile, changed_flags, default,
    )
    from perfatlas.commands.flags.pages import PageFlags, PageScript
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
