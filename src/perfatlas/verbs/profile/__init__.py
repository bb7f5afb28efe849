"""Profiles of GPUs explained, as a command."""

from __future__ import annotations
