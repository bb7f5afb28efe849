"""The command line: parses, calls, shows; contains no formula."""

from __future__ import annotations

from perfatlas.cli.entry import main

__all__ = ["main"]
