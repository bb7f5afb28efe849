"""The command line: parses arguments and prints answers; contains no formulas."""

from perfatlas.cli.entry import main

__all__ = ["main"]
