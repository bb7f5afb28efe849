"""Availability and goodput of large clusters: closed forms and a simulator that agree."""

from __future__ import annotations
