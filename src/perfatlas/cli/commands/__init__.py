"""The commands, a module each; imported when its verb is run."""

from __future__ import annotations
