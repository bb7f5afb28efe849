"""The verbs beside this file belong to `perfatlas.verbs` only where a test puts them there."""

from __future__ import annotations

collect_ignore = ["verbs"]
