"""Words for the cases of benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def case_text(record: Mapping[str, Any]) -> str:
    """Return operator, sizes, format, temperature and implementation in a few words."""
    from perfatlas.lab.harness import SHAPES

    sizes = "x".join(str(record[name]) for name in SHAPES if record[name] is not None)
    words = (record["name"], sizes, record["format"], record["data"], record["kernel"])
    return " ".join(filter(None, words))
