from .answering import (
    Answering as Answering,
    answer_command as answer_command,
    command_of as command_of,
    table_function as table_function,
)
from .answers import (
    print_json as print_json,
    reproduced as reproduced,
    require as require,
    show_answer as show_answer,
)
from .envelopes import (
    envelope as envelope,
)
from .page_files import (
    write_page_files as write_page_files,
)
from .refusal import (
    shortfall_of as shortfall_of,
)
from .refused import (
    refused_command as refused_command,
)
from .table_run import (
    TableQuestion as TableQuestion,
    answer_rows as answer_rows,
    answer_table as answer_table,
    wants_table as wants_table,
)
from .table_summary import (
    show_summary as show_summary,
)
from .waiting import (
    late_lines as late_lines,
    notice_if_slow as notice_if_slow,
)
from .watch import (
    Progress as Progress,
)
