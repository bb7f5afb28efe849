"""Components of text answers: rows, results, breakdowns, evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.report.text.answer import (
        print_answer as print_answer,
        print_question as print_question,
    )
    from perfatlas.report.text.breakdown import rows_by_phase as rows_by_phase
    from perfatlas.report.text.closing import print_closing as print_closing
    from perfatlas.report.text.evidence import (
        CALIBRATION_COLUMNS as CALIBRATION_COLUMNS,
        evidence_headline as evidence_headline,
    )
    from perfatlas.report.text.job_time import (
        METHODS as METHODS,
        MOST_BUCKETS as MOST_BUCKETS,
        job_field as job_field,
        job_field_label as job_field_label,
        job_value as job_value,
        print_waterfall as print_waterfall,
    )
    from perfatlas.report.text.latencies import (
        distributions as distributions,
        mean_interval as mean_interval,
        tail_title as tail_title,
        tails as tails,
    )
    from perfatlas.report.text.limits import (
        limited_text as limited_text,
        limits_of as limits_of,
        ratio_text as ratio_text,
    )
    from perfatlas.report.text.memory_use import memory_bar as memory_bar
    from perfatlas.report.text.plotting import line_chart as line_chart
    from perfatlas.report.text.quantities import (
        format_interval as format_interval,
        format_number as format_number,
        format_share as format_share,
        format_value as format_value,
        share_text as share_text,
        time_text as time_text,
        unit_of as unit_of,
    )
    from perfatlas.report.text.question import headline as headline, subheadline as subheadline
    from perfatlas.report.text.replica_kinds import kind_rows as kind_rows, kinds_of as kinds_of
    from perfatlas.report.text.reproduce import reproduce_line as reproduce_line
    from perfatlas.report.text.results import (
        Shown as Shown,
        interval_text as interval_text,
        print_results as print_results,
        print_shown as print_shown,
        printed_results as printed_results,
    )
    from perfatlas.report.text.rows import (
        cells_of as cells_of,
        item_of as item_of,
        label_of as label_of,
        point_details as point_details,
        print_aligned as print_aligned,
        print_cells as print_cells,
        print_facts as print_facts,
        print_heading as print_heading,
        print_labelled as print_labelled,
        print_more as print_more,
        print_rows as print_rows,
        spelled_out as spelled_out,
    )
    from perfatlas.report.text.sourced import (
        print_grouped as print_grouped,
        print_readers as print_readers,
        print_sourced as print_sourced,
        profile_values as profile_values,
        system_values as system_values,
    )
    from perfatlas.report.text.study_summary import (
        cell_text as cell_text,
        print_study_summary as print_study_summary,
        row_text as row_text,
    )
    from perfatlas.report.text.tables import TitledRows as TitledRows, print_tables as print_tables
    from perfatlas.report.text.terminal import (
        open_terminal as open_terminal,
        print_line as print_line,
        print_plain as print_plain,
        speaks_unicode as speaks_unicode,
    )
    from perfatlas.report.text.typesetting import typeset as typeset
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
