"""Studies that come with perfatlas."""

from __future__ import annotations

from functools import cache

from perfatlas.files import shipped_names, shipped_text


@cache
def shipped_studies() -> dict[str, str]:
    """Return the text (TOML) of every study that comes with perfatlas, by name.

    Example:
        >>> from perfatlas.studies import shipped_studies
        >>> "hbm" in shipped_studies()
        True
    """
    folder = "data/studies"
    return {name: shipped_text(f"{folder}/{name}.toml") for name in shipped_names(folder)}


def study_purpose(text: str) -> str:
    r"""Return what a study is about: the comment at its head.

    Example:
        >>> from perfatlas.studies import study_purpose
        >>> study_purpose("# Faster memory,\n# at two batches.\nverb = 'estimate'")
        'Faster memory, at two batches.'
    """
    lines = text.splitlines()
    head = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return " ".join(line.removeprefix("#").strip() for line in lines[:head])
