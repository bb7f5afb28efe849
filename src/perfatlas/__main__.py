"""`python -m perfatlas` is the command `perfatlas`."""

from __future__ import annotations

import sys

from perfatlas.cli import main

if __name__ == "__main__":
    sys.exit(main())
