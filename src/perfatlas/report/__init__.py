"""Presentation of answers: text, charts, pages, traces; computes no results."""

from __future__ import annotations
