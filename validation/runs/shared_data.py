"""Public measurements outside of the repository, too large or too mixed to ship."""

from __future__ import annotations

import csv
import gzip
import os
import tomllib
from pathlib import Path
from typing import Any, Final

from perfatlas.quantities import InvalidSpecError

VARIABLE: Final = "PERFATLAS_SHARED_DATA"
DEFAULT: Final = "../shared/data"


def shared_folder() -> Path:
    """Return the folder of shared data, which may not exist."""
    return Path(os.environ.get(VARIABLE) or DEFAULT)


def missing_data(path: Path) -> str:
    """Return a sentence about a missing file of shared data.

    Example:
        >>> from pathlib import Path
        >>> from validation.runs.shared_data import missing_data
        >>> missing_data(Path("data/runs.csv")).split(";")[0]
        'data/runs.csv does not exist'
    """
    return f"{path} does not exist; set {VARIABLE} to the folder of shared data (default {DEFAULT})"


def read_table(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file of shared data, which may be compressed with gzip.

    Args:
        path: An existing file.
    """
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def read_settings(path: Path) -> dict[str, Any]:
    """Return a TOML file of shared data.

    Args:
        path: An existing file.

    Raises:
        InvalidSpecError: Not TOML.
    """
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidSpecError(f"{path} is not TOML: {error}") from None
