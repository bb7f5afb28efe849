"""Large arrays on disk: equal values, no memory use, and an error if the disk is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from perfatlas.files import GrowingColumn, large_array, mapped_arrays as scratch, release_pages
from perfatlas.quantities import InfeasibleError

ROW = np.dtype([("a", "i8"), ("b", "i8")])


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(scratch, "IN_MEMORY_BYTES", 0)
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path))
    return tmp_path / "cache"


@pytest.mark.parametrize("fill", [0, -1])
def test_arrays_on_disk_are_those_in_memory(on_disk: Path, fill: int) -> None:
    array = large_array(1000, ROW, fill=fill)
    assert type(array) is np.ndarray
    assert array.flags.writeable
    assert isinstance(array.base, np.memmap)
    assert (array["a"] == fill).all()
    assert (array["b"] == fill).all()
    array["a"][7] = 5
    assert int(array["a"].sum()) == 999 * fill + 5
    assert list(on_disk.iterdir()) == []  # no name: it goes with the process


def test_small_arrays_stay_in_memory() -> None:
    assert large_array(1000, np.int64).base is None


@pytest.mark.parametrize("limit", [0, 100, 10**9])
def test_a_column_grows_in_memory_and_then_on_disk(
    monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(scratch, "IN_MEMORY_BYTES", limit)
    column = GrowingColumn()
    parts = [np.arange(first, first + 7)[:: 1 + first % 2] for first in range(20)]
    for part in parts:
        column.extend(part)
    whole = column.whole()
    assert type(whole) is np.ndarray
    assert whole.tolist() == np.concatenate(parts).tolist()


def test_an_array_on_disk_takes_no_memory_of_its_own() -> None:
    def anonymous_kb() -> int:
        lines = status.read_text("ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))

    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("the system does not tell memory of files and of the process apart")
    before = anonymous_kb()
    array = large_array(8_000_000, np.int64, fill=1)  # 64 MB
    assert anonymous_kb() - before < 6_400
    assert int(array[::1_000_000].sum()) == 8


def resident_kb() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        pytest.skip("the system does not tell how much memory of files is in use")
    lines = status.read_text("ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssFile"))


def test_released_pages_keep_their_values_and_take_no_memory(on_disk: Path) -> None:
    array = large_array(4_000_000, np.int64)  # 32 MB
    array[:] = np.arange(4_000_000)
    before = resident_kb()
    release_pages(array, array[10:20], np.arange(3))
    assert before - resident_kb() > 30_000
    assert int(array.sum()) == 4_000_000 * 3_999_999 // 2
    assert list(on_disk.iterdir()) == []


def test_changes_of_a_private_mapping_are_not_released(tmp_path: Path) -> None:
    np.arange(1000).tofile(tmp_path / "numbers")
    private = np.memmap(tmp_path / "numbers", np.int64, "c")
    private[7] = -1
    release_pages(private, private[5:9])
    assert private[:9].tolist() == [0, 1, 2, 3, 4, 5, 6, -1, 8]


def test_a_full_disk_is_reported(on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(InfeasibleError, match="No space left") as told:
        large_array(1000, np.int64)
    assert str(on_disk) in str(told.value)


def test_an_impossible_folder_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(scratch, "IN_MEMORY_BYTES", 0)
    monkeypatch.setenv("PERFATLAS_HOME", str(tmp_path / "file"))
    with pytest.raises(InfeasibleError, match="temporary arrays"):
        large_array(1000, np.int64)
