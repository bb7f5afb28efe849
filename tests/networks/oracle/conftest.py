"""The oracle's script imports torch, so its docstrings are not collected."""

from __future__ import annotations

collect_ignore = ["make_oracle.py"]
