"""Files of `validation/data`."""

from __future__ import annotations

import csv
import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = Path(__file__).parents[1] / "data"


def data_path(name: str) -> Path:
    """Return the path of a file.

    Args:
        name: Its name.
    """
    return FOLDER / name


def data_text(name: str) -> str:
    """Return the text of a file.

    Args:
        name: Its name.
    """
    return data_path(name).read_text("utf-8")


@cache
def data_rows(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of a CSV file.

    Args:
        name: Its name.
    """
    return tuple(csv.DictReader(data_text(name).splitlines()))


@cache
def read_data(name: str) -> Mapping[str, Any]:
    """Return the content of a TOML file.

    Args:
        name: Its name.
    """
    return tomllib.loads(data_text(name))
