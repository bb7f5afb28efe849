"""HTML pages of answers with a common layout; self-contained by default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.report.pages.closing import (
        answer_page as answer_page,
        key_values as key_values,
        results_page as results_page,
    )
    from perfatlas.report.pages.documents import (
        joined_page as joined_page,
        page_markdown as page_markdown,
    )
    from perfatlas.report.pages.page import (
        Block as Block,
        Chart as Chart,
        Command as Command,
        Page as Page,
        Section as Section,
        Table as Table,
        Value as Value,
    )
    from perfatlas.report.pages.pictures import (
        PHASE_TITLES as PHASE_TITLES,
        memory_section as memory_section,
        roofline as roofline,
        steps_section as steps_section,
        tornado as tornado,
    )
    from perfatlas.report.pages.printed import (
        print_blocks as print_blocks,
        print_sections as print_sections,
    )
    from perfatlas.report.pages.render import page_html as page_html
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
