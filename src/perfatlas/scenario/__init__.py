"""Scenarios: their fields, their resolution to typed columns, and their deployments."""

from __future__ import annotations
