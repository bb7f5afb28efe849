from .answers import (
    print_json as print_json,
    require as require,
    show_answer as show_answer,
)
from .envelopes import (
    envelope as envelope,
)
from .refusal import (
    refusal_text as refusal_text,
    shortfall_of as shortfall_of,
    unknown_option_text as unknown_option_text,
    unused_words_text as unused_words_text,
)
from .table_run import (
    answer_rows as answer_rows,
    answer_table as answer_table,
    show_summary as show_summary,
    wants_table as wants_table,
)
from .waiting import (
    told_if_slow as told_if_slow,
)
from .watch import (
    Watch as Watch,
)
