"""Fitting kernel parameters, as a command."""

from __future__ import annotations
