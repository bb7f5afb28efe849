"""Forms, pages and a REST API of the commands in a browser; only this package uses FastAPI."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.web.answers import answer_command_line
    from perfatlas.web.application import web_application
    from perfatlas.web.questions import FORMS, SWITCHES, command_words, form_fields
    from perfatlas.web.server import serve
    from perfatlas.web.workers import Settings
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
