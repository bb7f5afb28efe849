"""Every field of a question and every metric of an answer, declared once."""

from __future__ import annotations
