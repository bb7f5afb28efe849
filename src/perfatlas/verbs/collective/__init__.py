"""The price of one communication of a group of devices."""

from __future__ import annotations

from perfatlas.verbs.collective.answer import collective

__all__ = [
    "collective",
]
