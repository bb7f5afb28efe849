"""Compressed text: equal content, and refusal of damaged or oversized files."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from perfatlas.files import open_text, read_table
from perfatlas.quantities import InvalidSpecError

TABLE = 'name,value\r\n"two\nlines",1\r\nb,2\r\n'
ROWS = '{"name": "a", "value": 1}\n{"name": "b", "value": 2}\n'


def test_a_compressed_table_is_the_table(tmp_path: Path) -> None:
    for name, text in (("t.csv", TABLE), ("t.jsonl", ROWS)):
        plain, packed = tmp_path / name, tmp_path / f"{name}.gz"
        plain.write_bytes(text.encode())
        packed.write_bytes(gzip.compress(text.encode()))
        assert read_table(packed).columns == read_table(plain).columns
        assert read_table(packed).cells("value") == [1, 2]
    packed.rename(tmp_path / "unnamed.jsonl")  # whatever its name
    assert read_table(tmp_path / "unnamed.jsonl").rows == 2


def test_truncated_compressed_files_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    whole = gzip.compress(TABLE.encode() * 1000)
    for damaged in (whole[: len(whole) // 2], whole[:-4], whole[:30] + b"?" + whole[31:]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidSpecError, match=r"t\.csv\.gz'.*damaged"):
            read_table(path)


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"\n" * (1 << 22)))  # 4 MiB in 4 KiB
    with (
        pytest.raises(InvalidSpecError, match="more than 1 MiB"),
        open_text(path, "table", most_bytes=1 << 20) as file,
    ):
        file.read()
    with open_text(path, "table", most_bytes=1 << 22) as file:
        assert len(file.read()) == 1 << 22


def test_no_other_name_ends_in_gz(tmp_path: Path) -> None:
    for name in ("t.parquet.gz", "t.gz"):
        (tmp_path / name).write_bytes(gzip.compress(TABLE.encode()))
        with pytest.raises(InvalidSpecError, match=r"\.gz is not a table format"):
            read_table(tmp_path / name)
