"""Engine files to start from."""

from __future__ import annotations

from typing import Final

from perfatlas.engines.catalog import resolve_engine
from perfatlas.files import shipped_text

HEADER: Final = """\
# An engine: the values of `base`, and those that are set below. Give its path as --engine.
# To change a value, remove the "# " before its line and before the [table] above it. A table with
# a `ref` needs a `ref` of its own, where the values come from.
"""
DEFAULT: Final = "vllm"


def engine_template(base: str | None = None) -> str:
    """Return the text of an engine file with all values of its base as comments.

    Args:
        base: Engine whose values the file starts from, by default the newest vLLM.

    Raises:
        InvalidSpecError: There is no such engine.

    Example:
        >>> from perfatlas.engines import engine_template
        >>> 'base = "sglang@' in engine_template("sglang")
        True
    """
    profile = resolve_engine(DEFAULT if base is None else base)
    shipped = profile.borrowed or profile.id
    text = shipped_text(f"data/engines/{shipped}.toml")
    values = "".join(f"# {line}\n" if line else "\n" for line in text.splitlines())
    return f'{HEADER}base = "{shipped}"\n\n# ---- Values of {shipped} ----\n{values}'
