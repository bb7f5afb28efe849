"""Commands, text, charts and pages of fleets and failure histories."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.verbs.fleet.answer import fleet_fit, fleet_import, fleet_report
    from perfatlas.verbs.fleet.blocks import fleet_page, history_page
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
