"""Fleets and histories of failures for people: text, charts and a page."""

from __future__ import annotations

from perfatlas.verbs.fleet.lifetime_text import print_lifetimes
from perfatlas.verbs.fleet.page import fleet_page, history_page
from perfatlas.verbs.fleet.text import kind_text, print_fitted

__all__ = [
    "fleet_page",
    "history_page",
    "kind_text",
    "print_fitted",
    "print_lifetimes",
]
