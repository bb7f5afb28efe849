"""Cells kept as distinct values and codes are those they stand for, in every form of a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas import files
from perfatlas.commands.output.partial_file import PartialFile
from perfatlas.scenario.resolution import resolve

TEXTS = st.lists(st.sampled_from(["compute", "a, b", 'say "c"', "", None]), max_size=20)
WHOLE = st.lists(st.sampled_from([0, 1, -(2**40), None]), max_size=20)
COLUMNS = TEXTS | WHOLE | st.lists(st.sampled_from([0.5, 1e-7, None]), max_size=20)


@given(COLUMNS, st.integers(0, 20))
def test_rows_can_be_cut_and_joined(cells: list[Any], cut: int) -> None:
    coded = files.DictionaryCells.of(cells)
    assert coded.plain() == cells
    parts = coded[:cut], coded[cut:]
    assert [list(part) for part in parts] == [cells[:cut], cells[cut:]]
    assert all(len(part.values) <= max(len(part), len(set(cells))) for part in parts)
    assert files.joined_dictionaries(parts).plain() == cells
    assert files.arrow_column("a", coded).equals(files.arrow_column("a", cells))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_files_are_those_of_plain_cells(tmp_path: Path, suffix: str) -> None:
    columns: dict[str, list[Any]] = {
        "text": ["a, b", None, 'say "c"', "a, b"],
        "number": [1, None, 3, 3],
    }
    coded = {name: files.DictionaryCells.of(cells) for name, cells in columns.items()}
    paths = tmp_path / f"plain{suffix}", tmp_path / f"coded{suffix}"
    files.write_table(paths[0], columns)
    files.write_table(paths[1], coded)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert {name: files.read_table(paths[1]).cells(name) for name in columns} == columns


def test_a_partial_file_keeps_them(tmp_path: Path) -> None:
    errors = files.DictionaryCells.of([None, "too large", None])
    columns = {
        "tier": files.DictionaryCells.of(["bound", None, "physics"]),
        "error_code": errors.mapped(lambda text: text and "infeasible"),
        "error": errors,
    }
    with PartialFile(tmp_path / "a.csv", {}, resume=False) as partial:
        partial.add(3, columns)
        partial.write()
        found = [{n: list(c) for n, c in block.items()} for block in partial.blocks(2)]
        assert (partial.failed, partial.bounds, partial.first_error) == (1, 1, "row 2: too large")
    assert json.dumps(found) == json.dumps(
        [{n: list(c)[part] for n, c in columns.items()} for part in (slice(0, 2), slice(2, 3))]
    )


def test_a_table_of_them_is_resolved_as_plain_cells() -> None:
    rows: dict[str, list[Any]] = {
        "model": ["meta-llama/Llama-3.1-8B"] * 3,
        "system": ["h200_sxm", "h100_sxm", "h2000"],
        "batch": [True, 8, None],
    }
    coded = {
        name: files.DictionaryCells(values=tuple(cells), codes_N=np.arange(3))
        for name, cells in rows.items()
    }
    plain, found = resolve(rows), resolve(coded)
    assert found.refusals.rows() == plain.refusals.rows() == [0, 2]
    rows_of = [[group.rows_C.tolist() for group in each.groups] for each in (plain, found)]
    assert rows_of[0] == rows_of[1]
