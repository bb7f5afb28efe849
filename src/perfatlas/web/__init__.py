"""Forms, pages and a REST API of the commands in a browser; only this package uses FastAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.web.answers import answer_command_line as answer_command_line
    from perfatlas.web.application import web_application as web_application
    from perfatlas.web.questions import (
        FORMS as FORMS,
        SWITCHES as SWITCHES,
        command_words as command_words,
        form_fields as form_fields,
    )
    from perfatlas.web.server import serve as serve
    from perfatlas.web.workers import Settings as Settings
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
