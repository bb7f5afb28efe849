"""HTML pages of answers with a common layout; self-contained by default."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.report.pages.closing import answer_page, answer_text, key_values, results_page
    from perfatlas.report.pages.documents import joined_page, page_markdown
    from perfatlas.report.pages.page import (
        Block, Chart, Command, Note, Page, Section, Table, TextOnly, Values,
    )
    from perfatlas.report.pages.pictures import (
        PHASE_TITLES, compared_section, memory_section, roofline, steps_section, tornado,
    )
    from perfatlas.report.pages.printed import print_page
    from perfatlas.report.pages.render import page_html
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
