from .answer import (
    print_answer as print_answer,
    print_question as print_question,
)
from .breakdown import (
    rows_by_phase as rows_by_phase,
)
from .closing import (
    print_closing as print_closing,
)
from .evidence import (
    evidence_headline as evidence_headline,
)
from .job_time import (
    METHODS as METHODS,
    MOST_BUCKETS as MOST_BUCKETS,
    SHORT as SHORT,
    print_waterfall as print_waterfall,
)
from .latencies import (
    distributions as distributions,
    tail_title as tail_title,
    tails as tails,
)
from .limits import (
    limited_text as limited_text,
    limits_of as limits_of,
    ratio_text as ratio_text,
)
from .memory_use import (
    memory_bar as memory_bar,
)
from .plotting import (
    line_chart as line_chart,
)
from .quantities import (
    format_interval as format_interval,
    format_number as format_number,
    format_share as format_share,
    format_value as format_value,
    share_text as share_text,
    time_text as time_text,
)
from .question import (
    headline as headline,
    subheadline as subheadline,
)
from .replica_kinds import (
    kind_rows as kind_rows,
    kinds_of as kinds_of,
)
from .reproduce import (
    reproduce_line as reproduce_line,
)
from .results import (
    interval_text as interval_text,
    printed_results as printed_results,
)
from .rows import (
    label_of as label_of,
    print_facts as print_facts,
    print_labelled as print_labelled,
    print_rows as print_rows,
)
from .sourced import (
    print_grouped as print_grouped,
    print_readers as print_readers,
    print_sourced as print_sourced,
    profile_values as profile_values,
    system_values as system_values,
)
from .study_summary import (
    print_study_summary as print_study_summary,
    row_text as row_text,
)
from .tables import (
    TitledRows as TitledRows,
    print_tables as print_tables,
)
from .terminal import (
    open_terminal as open_terminal,
    print_line as print_line,
    print_plain as print_plain,
    speaks_unicode as speaks_unicode,
)
from .typesetting import (
    typeset as typeset,
)
