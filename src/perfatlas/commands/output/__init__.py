"""Output of commands: answers, tables, errors, progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.commands.output.answering import (
        Answering as Answering,
        answer_command as answer_command,
        command_of as command_of,
        table_function as table_function,
    )
    from perfatlas.commands.output.answers import (
        print_json as print_json,
        reproduced as reproduced,
        require as require,
        show_answer as show_answer,
    )
    from perfatlas.commands.output.envelopes import envelope as envelope
    from perfatlas.commands.output.page_files import write_page_files as write_page_files
    from perfatlas.commands.output.python import answer_function as answer_function
    from perfatlas.commands.output.refusal import shortfall_of as shortfall_of
    from perfatlas.commands.output.refused import refused_command as refused_command
    from perfatlas.commands.output.table_run import (
        TableQuestion as TableQuestion,
        answer_rows as answer_rows,
        answer_table as answer_table,
        wants_table as wants_table,
    )
    from perfatlas.commands.output.table_summary import show_summary as show_summary
    from perfatlas.commands.output.waiting import (
        late_lines as late_lines,
        notice_if_slow as notice_if_slow,
    )
    from perfatlas.commands.output.watch import Progress as Progress
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
