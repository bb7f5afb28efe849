"""The productive share of the time of a job under failures."""

from __future__ import annotations

from perfatlas.verbs.goodput.closed_form import goodput
from perfatlas.verbs.goodput.domains import goodput_domains
from perfatlas.verbs.goodput.fields import (
    DOMAIN_NAMES,
    GOODPUT_NAMES,
    SPARE_NAMES,
    STRAGGLER_NAMES,
    Duration,
    Number,
    Pause,
    Share,
    Whole,
    parsed,
)
from perfatlas.verbs.goodput.fleet_answer import fleet_goodput
from perfatlas.verbs.goodput.page import charts_of, goodput_page, page_of, waterfall_of
from perfatlas.verbs.goodput.spares import goodput_spares
from perfatlas.verbs.goodput.stragglers import goodput_stragglers
from perfatlas.verbs.goodput.text import (
    METHODS,
    SHORT,
    print_goodput,
    print_waterfall,
    share_text,
    time_text,
)

__all__ = [
    "DOMAIN_NAMES",
    "GOODPUT_NAMES",
    "METHODS",
    "SHORT",
    "SPARE_NAMES",
    "STRAGGLER_NAMES",
    "Duration",
    "Number",
    "Pause",
    "Share",
    "Whole",
    "charts_of",
    "fleet_goodput",
    "goodput",
    "goodput_domains",
    "goodput_page",
    "goodput_spares",
    "goodput_stragglers",
    "page_of",
    "parsed",
    "print_goodput",
    "print_waterfall",
    "share_text",
    "time_text",
    "waterfall_of",
]
