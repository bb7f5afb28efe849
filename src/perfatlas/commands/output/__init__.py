"""Output of commands: answers, tables, errors, progress."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.commands.output.answering import (
        Answering, answer_command, command_of, table_function,
    )
    from perfatlas.commands.output.answers import (
        fits, print_json, reproduced, require, show_answer,
    )
    from perfatlas.commands.output.envelopes import envelope
    from perfatlas.commands.output.page_files import run_page, write_page_files
    from perfatlas.commands.output.python import (
        answer_function, collected_json, flag_arguments,
    )
    from perfatlas.commands.output.refusal import shortfall_of
    from perfatlas.commands.output.refused import refused_command
    from perfatlas.commands.output.table_run import (
        TableQuestion, answer_rows, answer_table, wants_table,
    )
    from perfatlas.commands.output.table_summary import show_summary
    from perfatlas.commands.output.waiting import Progress, late_lines, notice_if_slow
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
