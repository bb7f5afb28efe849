"""Answers for people and for other tools: text, charts, traces; computes nothing of its own."""

from __future__ import annotations
