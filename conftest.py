"""Docstrings are collected only from files that have examples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

EXAMPLE = b">>>"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Leave out what would look for examples where there are none, as in nine files of ten."""
    found = yield
    if file_path.suffix != ".py" or EXAMPLE in file_path.read_bytes():
        return found
    return [one for one in found if type(one) is pytest.Module]
