"""Components of text answers: rows, results, breakdowns, evidence."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.report.text.answer import print_body, print_memory_bar
    from perfatlas.report.text.breakdown import rows_by_phase
    from perfatlas.report.text.closing import (
        CALIBRATION_COLUMNS, METHODS, evidence_headline, print_closing,
    )
    from perfatlas.report.text.job_time import (
        MAX_BUCKETS, job_field, job_field_label, job_value, print_waterfall,
    )
    from perfatlas.report.text.latencies import (
        distributions, kind_rows, kinds_of, mean_interval, tail_title, tails,
    )
    from perfatlas.report.text.results import (
        Value, interval_text, limited_text, limits_of, marked_value, order_is_open, print_values,
        printed_results, ratio_interval, ratio_text, shown_metrics,
    )
    from perfatlas.report.text.plotting import line_chart
    from perfatlas.report.text.quantities import (
        format_interval, format_number, format_share, format_value, share_text, time_text, unit_of,
    )
    from perfatlas.report.text.question import (
        headline, objective_texts, question_lines, reproduce_line,
    )
    from perfatlas.report.text.rows import (
        cells_of, item_of, label_of, point_details, print_aligned, print_cells, print_facts,
        print_labelled, print_more, print_rows, spelled_out,
    )
    from perfatlas.report.text.sourced import (
        print_grouped, print_readers, print_sourced, profile_values, system_values,
    )
    from perfatlas.report.text.study_summary import cell_text, print_study_summary, row_text
    from perfatlas.report.text.tables import TitledRows, print_tables
    from perfatlas.report.text.terminal import (
        open_terminal, print_line, print_plain, speaks_unicode, typeset,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
