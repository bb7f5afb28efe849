"""Long CSV files are read by Arrow as by Python, and refused with the same words."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfatlas.files import DictionaryCells, read_table, scan_source
from perfatlas.quantities import InvalidSpecError

HEADER = "name,tp,share,code\n"
LINES = ["Zürich,8,0.5,007\n", " b ,-1,,\n", "\n", ",16,1e-07,1e3\n"]


@pytest.fixture(autouse=True)
def _every_file_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfatlas.files.table_source.MIN_BYTES", 0)


@pytest.mark.parametrize("start", [0, 4])
def test_cells_are_those_of_python(tmp_path: Path, start: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text("\ufeff" + HEADER + "".join(LINES * 3), "utf-8")
    source = scan_source(path)
    assert (source.unquoted, source.rows) == (True, 9)
    blocks = list(source.blocks(4, start))
    whole = read_table(path)
    for name in ("name", "tp", "share", "code"):
        assert all(isinstance(block[name], DictionaryCells) for block in blocks)
        assert [cell for block in blocks for cell in block[name]] == whole.cells(name)[start:]
    assert whole.cells("tp")[:3] == [8, -1, 16]
    assert whole.cells("code")[:3] == ["007", None, "1e3"]


@pytest.mark.parametrize(
    "content", [HEADER + '"a, b",1,2.5,3\n', HEADER.replace("\n", "\r\n") + "a,1,2.5,3\r\n"]
)
def test_quotes_and_other_line_ends_are_read_by_python(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content, newline="")
    source = scan_source(path)
    assert (source.unquoted, source.rows) == (False, 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (HEADER.encode() + b"a,1,2\n", "record 2: 3 cells where the header names 4"),
        (HEADER.encode() + b"\xff,1,2,3\n", "not UTF-8"),
        (b"a,a\n1,2\n", "two columns named 'a'"),
        (b"a\n1\0\n", "NUL"),
        (b"", "no columns"),
    ],
)
def test_a_bad_file_is_refused_as_by_python(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidSpecError, match=words):
        scan_source(path)


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEADER + LINES[0])
    source = scan_source(path)
    path.write_text("other\n1\n")
    with pytest.raises(InvalidSpecError, match="changed while it was read"):
        list(source.blocks(4))
