"""Code shared by all commands: flags from fields, and output."""

from __future__ import annotations
