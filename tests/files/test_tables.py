from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from perfatlas.files import read_table, write_table
from perfatlas.files.text import refuse_repeated
from perfatlas.quantities import InvalidSpecError

cells = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=6)


@given(st.lists(st.tuples(cells, cells, st.integers(-5, 5)), max_size=6))
def test_csv_cells_survive_reading_and_writing(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("csv")
    columns = {name: [row[i] for row in rows] for i, name in enumerate(("id", "note", "tp"))}
    write_table(folder / "a.csv", columns)
    table = read_table(folder / "a.csv")
    write_table(folder / "b.csv", table.columns)
    assert (folder / "a.csv").read_text() == (folder / "b.csv").read_text()
    assert table.rows == len(rows)


def test_csv_numbers_are_typed_only_where_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("tp,serial,rate,open\n8,007,0.90,\n16,008,1e3,\n", encoding="utf-8-sig")
    table = read_table(path)
    assert table.cells("tp") == [8, 16]
    assert table.cells("serial") == ["007", "008"]
    assert table.cells("rate") == ["0.90", "1e3"]
    assert table.cells("open") == [None, None]


def test_a_table_travels_through_every_format(tmp_path: Path) -> None:
    columns = {"model": ["a", "b"], "tp": [1, 2], "ttft_s": [0.5, None], "fits": [True, False]}
    for suffix in ("parquet", "jsonl", "csv"):
        write_table(tmp_path / f"t.{suffix}", columns)
    for suffix in ("parquet", "jsonl"):
        table = read_table(tmp_path / f"t.{suffix}")
        assert {name: table.cells(name) for name in table.columns} == columns
    assert (tmp_path / "t.csv").read_text() == ("model,tp,ttft_s,fits\na,1,0.5,true\nb,2,,false\n")


def test_parquet_columns_keep_their_types(tmp_path: Path) -> None:
    when = pa.array([dt.datetime(2026, 11, 1, tzinfo=dt.UTC)], pa.timestamp("ns", "UTC"))
    source = pa.table({"when": when, "small": pa.array([3], pa.int16()), "tags": [["a", "b"]]})
    pq.write_table(source, tmp_path / "in.parquet")
    table = read_table(tmp_path / "in.parquet")
    write_table(tmp_path / "out.parquet", {**table.columns, "tpot_s": [float("nan")]})
    answered = pq.read_table(tmp_path / "out.parquet")
    assert answered.select(source.column_names).equals(source)
    assert answered.column("tpot_s").to_pylist() == [None]
    write_table(tmp_path / "out.jsonl", table.columns)
    row = json.loads((tmp_path / "out.jsonl").read_text())
    assert row["small"] == 3
    assert row["tags"] == ["a", "b"]
    assert row["when"].startswith("2026-11-01 00:00:00")


REFUSED: list[tuple[str, str | bytes, str]] = [
    ("a.txt", "x", "not a table format"),
    ("a.xlsx", "x", "not a table format"),
    ("a.csv", "", "no columns"),
    ("a.csv", "a,b\n1\n", "record 2: 1 cells where the header names 2"),
    ("a.csv", "a,a\n1,2\n", "two columns named 'a'"),
    ("a.csv", b"\xff\xfe\x00", "not UTF-8"),
    ("a.csv", 'a\n"open\n', "not CSV"),
    ("a.jsonl", '{"a": 1}\n{"a": \n', "line 2"),
    ("a.jsonl", "[1]\n", "expected an object"),
    ("a.jsonl", '{"a": NaN}\n', "NaN is not a JSON number"),
    ("a.jsonl", "[" * 100_000, "line 1"),
    ("a.parquet", "not parquet", "not Parquet"),
]


@pytest.mark.parametrize(("name", "content", "message"), REFUSED)
def test_a_bad_file_is_refused_by_name(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidSpecError, match=message) as refusal:
        read_table(path)
    assert name in str(refusal.value)


def test_a_header_of_many_names_is_checked_once_per_name() -> None:
    class Counted(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            type(self).compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Counted(f"column {number}") for number in range(2000)]
    refuse_repeated(names, "a.csv")
    assert Counted.compared < 10 * len(names)
    with pytest.raises(InvalidSpecError, match="two columns named 'column 7'"):
        refuse_repeated([*names, "column 7"], "a.csv")


def test_a_column_of_two_types_is_no_parquet_column(tmp_path: Path) -> None:
    mixed: dict[str, list[Any]] = {"tp": [8, "x"]}
    with pytest.raises(InvalidSpecError, match="column 'tp'"):
        write_table(tmp_path / "a.parquet", mixed)
    write_table(tmp_path / "a.jsonl", mixed)
    assert read_table(tmp_path / "a.jsonl").cells("tp") == [8, "x"]
