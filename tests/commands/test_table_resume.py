"""Interrupted table runs keep their rows, and go on to the same bytes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfatlas.answer import Answer, Evidence
from perfatlas.cli import main
from perfatlas.commands.flags import OutputFlags
from perfatlas.commands.output import TableQuestion, answer_rows, answer_table, table_run
from perfatlas.declarations import commands, verb_fields
from perfatlas.files import read_table, write_table
from perfatlas.quantities import InvalidSpecError, UsageError
from tests.examples import few

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    ColumnFunction = Callable[[dict[str, list[Any]]], Mapping[str, Sequence[Any]]]

ROWS = 23
BLOCK = 4
ASKED = TableQuestion(command="square", names=["m"], first="time_s")
FORMATS = ("csv", "jsonl", "parquet")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_run, "BLOCK_ROWS", BLOCK)


def squared(questions: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Answer with a third of the square; only later blocks have text."""
    numbers = [float(m) for m in questions["m"]]
    columns: dict[str, list[Any]] = {"time_s": [m * m / 3 for m in numbers]}
    if max(numbers) > 10:
        columns["note"] = ["é, \u2028x" if m > 10 else None for m in numbers]
    failed = [m == 5 for m in numbers]
    return columns | {
        "error_code": ["invalid" if one else "" for one in failed],
        "error": ["m = 5" if one else "" for one in failed],
    }


def stopping(function: ColumnFunction, at: float, how: BaseException) -> ColumnFunction:
    def stopped(questions: dict[str, list[Any]]) -> Mapping[str, Sequence[Any]]:
        if any(float(m) >= at for m in questions["m"]):
            raise how
        return function(questions)

    return stopped


def tables(folder: Path, source: str, target: str) -> OutputFlags:
    path = folder / f"in.{source}"
    if not path.exists():
        write_table(path, {"id": [f"{n:03}" for n in range(ROWS)], "m": list(range(ROWS))})
    return OutputFlags(table=path, output=folder / f"out.{target}")


def resumed(output: OutputFlags) -> OutputFlags:
    return OutputFlags(table=output.table, output=output.output, resume=True)


@pytest.mark.parametrize("source", FORMATS)
@pytest.mark.parametrize("target", FORMATS)
def test_a_resumed_run_writes_the_bytes_of_an_uninterrupted_one(
    tmp_path: Path, source: str, target: str
) -> None:
    output = tables(tmp_path, source, target)
    whole = OutputFlags(table=output.table, output=tmp_path / f"whole.{target}")
    done = answer_table(squared, whole, ASKED)
    partial = tmp_path / f"out.{target}.partial"
    for at in (9, 17):
        with pytest.raises(KeyboardInterrupt, match=r"rows kept.*--resume"):
            answer_table(stopping(squared, at, KeyboardInterrupt()), resumed(output), ASKED)
        assert partial.exists()
        assert not (tmp_path / f"out.{target}").exists()
    asked_again = stopping(squared, 0, AssertionError("answered twice"))
    with pytest.raises(AssertionError):  # there are rows left
        answer_table(asked_again, resumed(output), ASKED)
    summary = answer_table(squared, resumed(output), ASKED)
    expected = (tmp_path / f"whole.{target}").read_bytes()
    assert (tmp_path / f"out.{target}").read_bytes() == expected
    assert {**summary, "elapsed_s": 0, "output": ""} == {**done, "elapsed_s": 0, "output": ""}
    assert summary["failed"] == 1
    assert not partial.exists()


def test_columns_that_appear_late_are_in_all_rows(tmp_path: Path) -> None:
    output = tables(tmp_path, "csv", "jsonl")
    answer_table(squared, output, ASKED)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {tuple(row) for row in rows} == {("id", "m", "time_s", "note", "error_code", "error")}
    assert [row["time_s"] for row in rows] == [m * m / 3 for m in range(ROWS)]
    assert rows[5]["error"] == "m = 5"
    assert [row["note"] for row in rows] == [None] * 11 + ["é, \u2028x"] * 12


def test_types_of_cells_do_not_depend_on_blocks(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("m,rate,serial\n" + "1,2.5,7\n" * 9 + "2,,007\n")
    output = OutputFlags(table=tmp_path / "in.csv", output=tmp_path / "out.jsonl")
    answer_table(squared, output, ASKED)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {(row["m"], row["rate"], row["serial"]) for row in rows} == {
        (1, 2.5, "7"),
        (2, None, "007"),
    }


def test_parquet_blocks_keep_types_across_row_groups(tmp_path: Path) -> None:
    table = pa.table({"m": pa.array(range(ROWS), pa.int16()), "tag": [["a"]] * ROWS})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=3)
    output = tables(tmp_path, "parquet", "parquet")
    answer_table(squared, output, ASKED)
    answered = pq.read_table(tmp_path / "out.parquet")
    assert answered.select(["m", "tag"]).equals(table)
    assert answered.column("time_s").to_pylist() == [m * m / 3 for m in range(ROWS)]


def test_a_partial_file_is_neither_overwritten_nor_mixed(tmp_path: Path) -> None:
    output = tables(tmp_path, "csv", "csv")
    with pytest.raises(KeyboardInterrupt):
        answer_table(stopping(squared, 9, KeyboardInterrupt()), output, ASKED)
    kept = (tmp_path / "out.csv.partial").read_bytes()
    with pytest.raises(UsageError, match=r"8 answered rows.*--resume.*delete"):
        answer_table(squared, output, ASKED)
    other = TableQuestion(command="square", names=["m"], first="time_s", set_fields={"m": 3})
    with pytest.raises(InvalidSpecError, match="differs in the flags"):
        answer_table(squared, resumed(output), other)
    cube = TableQuestion(command="cube", names=["m"], first="time_s")
    with pytest.raises(InvalidSpecError, match="differs in the command"):
        answer_table(squared, resumed(output), cube)
    with (tmp_path / "in.csv").open("a") as file:
        file.write("023,23\n")
    with pytest.raises(InvalidSpecError, match=r"the content of the table.*delete '.*partial'"):
        answer_table(squared, resumed(output), ASKED)
    assert (tmp_path / "out.csv.partial").read_bytes() == kept


def test_a_file_that_is_no_partial_file_is_left_alone(tmp_path: Path) -> None:
    output = tables(tmp_path, "csv", "csv")
    (tmp_path / "out.csv.partial").write_text("my notes\n")
    for flags in (output, resumed(output)):
        with pytest.raises(InvalidSpecError, match="not a partial file"):
            answer_table(squared, flags, ASKED)
    assert (tmp_path / "out.csv.partial").read_text() == "my notes\n"


def test_a_torn_line_is_answered_again(tmp_path: Path) -> None:
    output = tables(tmp_path, "csv", "csv")
    with pytest.raises(KeyboardInterrupt):
        answer_table(stopping(squared, 17, KeyboardInterrupt()), output, ASKED)
    partial = tmp_path / "out.csv.partial"
    partial.write_bytes(partial.read_bytes()[:-30])
    seen: list[float] = []

    def watched(questions: dict[str, list[Any]]) -> dict[str, list[Any]]:
        seen.extend(questions["m"])
        return squared(questions)

    answer_table(watched, resumed(output), ASKED)
    assert seen == list(range(12, ROWS))
    assert read_table(tmp_path / "out.csv").cells("m") == list(range(ROWS))


def test_an_interrupted_run_without_answers_leaves_nothing(tmp_path: Path) -> None:
    output = tables(tmp_path, "csv", "csv")
    with pytest.raises(KeyboardInterrupt, match=r"^interrupted$"):
        answer_table(stopping(squared, 0, KeyboardInterrupt()), output, ASKED)
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def row_answer(number: int, fields: dict[str, Any]) -> Answer:
    results = {"time_s": fields["m"] / 3, "number": number}
    evidence = Evidence(tier="bound")
    return Answer(
        command="square", scenario=fields, results=results, breakdown=[], evidence=evidence
    )


def test_ctrl_c_keeps_each_row_of_a_verb_that_answers_row_by_row(tmp_path: Path) -> None:
    def stop_at_14(number: int, fields: dict[str, Any]) -> Answer:
        if number == 14:
            raise KeyboardInterrupt
        return row_answer(number, fields)

    output = tables(tmp_path, "csv", "csv")
    with pytest.raises(KeyboardInterrupt, match="14 answered rows kept"):
        answer_rows(stop_at_14, output, ASKED)
    answer_rows(row_answer, resumed(output), ASKED)
    assert read_table(tmp_path / "out.csv").cells("number") == list(range(ROWS))


KILLED = """
    import os, signal, sys, time
    from pathlib import Path
    from perfatlas.commands.flags import OutputFlags
    from perfatlas.commands.output import partial_file
    from perfatlas.commands.output import answer_rows
    from tests.commands.test_table_resume import ASKED, row_answer
    partial_file.WRITTEN_EVERY_S = 0.0

    def killed(number, fields):
        if number == 9:
            os.kill(os.getpid(), signal.SIGKILL)
        return row_answer(number, fields)

    source, target = map(Path, sys.argv[1:])
    answer_rows(killed, OutputFlags(table=source, output=target), ASKED)
"""


def test_a_killed_run_goes_on_after_the_rows_that_were_written(tmp_path: Path) -> None:
    output = tables(tmp_path, "csv", "csv")
    words = [sys.executable, "-c", textwrap.dedent(KILLED), str(output.table), str(output.output)]
    assert subprocess.run(words, check=False).returncode == -9
    numbers: list[int] = []

    def counted(number: int, fields: dict[str, Any]) -> Answer:
        numbers.append(number)
        return row_answer(number, fields)

    answer_rows(counted, resumed(output), ASKED)
    assert numbers == list(range(9, ROWS))
    whole = OutputFlags(table=output.table, output=tmp_path / "whole.csv")
    answer_rows(row_answer, whole, ASKED)
    assert (tmp_path / "whole.csv").read_bytes() == (tmp_path / "out.csv").read_bytes()


class _FullDisk:
    """A file whose disk is full after some lines."""

    def __init__(self, file: IO[Any], lines: int) -> None:
        self._file, self._lines = file, lines

    def __getattr__(self, name: str) -> object:
        return getattr(self._file, name)

    def write(self, data: bytes) -> int:
        self._lines -= 1
        if self._lines < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return int(self._file.write(data))


def test_a_full_disk_loses_nothing_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tables(tmp_path, "csv", "csv")
    fdopen = os.fdopen
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdopen", lambda *a: _FullDisk(fdopen(*a), 3))
        with pytest.raises(InvalidSpecError, match=r"No space left on device; 8 answered rows"):
            answer_table(squared, output, ASKED)
    answer_table(squared, resumed(output), ASKED)
    assert read_table(tmp_path / "out.csv").cells("m") == list(range(ROWS))


def test_two_runs_do_not_write_one_partial_file(tmp_path: Path) -> None:
    output = tables(tmp_path, "csv", "csv")

    def twice(questions: dict[str, list[Any]]) -> dict[str, list[Any]]:
        with pytest.raises(InvalidSpecError, match="another process is writing"):
            answer_table(squared, output, ASKED)
        return squared(questions)

    answer_table(twice, output, ASKED)
    assert read_table(tmp_path / "out.csv").cells("m") == list(range(ROWS))


UNREAD = [
    ("a;b;c\n1;2;3\n", "separated by semicolons: separate them with commas"),
    ("a\tb\n1\t2\n", "separated by tabs"),
    ("who,what\n1,2\n", "(found 'who', 'what'); columns are named like flags"),
]
VERBS = [name for name, (_, command) in commands().items() if command.table or command.row]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("text", "said"), few(UNREAD, every=3))
def test_a_table_without_a_field_is_refused_by_every_verb(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, text: str, said: str
) -> None:
    (tmp_path / "in.csv").write_text(text)
    words = ["--table", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out.csv")]
    assert main([*verb.split(), *words]) == 3
    told = capsys.readouterr().err
    assert f"no column is a field of {verb}" in told
    assert said in told
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


@pytest.mark.parametrize("target", FORMATS)
def test_a_lone_surrogate_is_the_error_of_its_row(tmp_path: Path, target: str) -> None:
    lines = ['{"m": 1, "tag": "a"}', '{"m": 2, "tag": ["\\ud83d"]}', '{"m": "\\ude00"}', '{"m": 4}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    asked: list[Any] = []

    def watched(number: int, fields: dict[str, Any]) -> Answer:
        asked.append((number, fields["m"]))
        return row_answer(number, fields)

    output = OutputFlags(table=tmp_path / "in.jsonl", output=tmp_path / f"out.{target}")
    if target == "parquet":  # one type per column
        with pytest.raises(InvalidSpecError, match=r"column 'm' .* several types"):
            answer_rows(watched, output, ASKED)
        (tmp_path / "in.jsonl").write_text(
            '{"m": 1}\n{"m": 2, "tag": "\\ud83d"}\n{"m": 3, "tag": "\\ud83d"}\n{"m": 4}\n'
        )
    summary = answer_rows(watched, output, ASKED)
    assert asked == [(0, 1), (3, 4)]
    assert summary["failed"] == 2
    table = read_table(tmp_path / f"out.{target}")
    assert table.cells("error_code") == [None, "invalid", "invalid", None]
    assert "lone surrogate" in table.cells("error")[1]
    assert table.cells("number") == [0, None, None, 3]


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_stops_at_a_lone_surrogate(tmp_path: Path, verb: str) -> None:
    field = next(iter(verb_fields(verb)))
    (tmp_path / "in.jsonl").write_text(f'{{"{field}": "\\ud83d"}}\n{{"{field}": "\\ude00"}}\n')
    words = ["--table", str(tmp_path / "in.jsonl"), "--output", str(tmp_path / "out.csv")]
    assert main([*verb.split(), *words]) == 0  # its rows have their errors
    table = read_table(tmp_path / "out.csv")
    assert table.cells("error_code") == ["invalid", "invalid"]
    assert all("lone surrogate" in text for text in table.cells("error"))


def test_nothing_is_answered_if_the_output_cannot_be_written(tmp_path: Path) -> None:
    asked = stopping(squared, 0, AssertionError("answered"))
    source = tables(tmp_path, "csv", "csv").table
    for target, said in (("no/out.csv", "does not exist"), ("out.txt", "not a table format")):
        with pytest.raises(InvalidSpecError, match=said):
            answer_table(asked, OutputFlags(table=source, output=tmp_path / target), ASKED)


def test_answers_are_kept_if_the_answered_table_cannot_be_written(tmp_path: Path) -> None:
    output = tables(tmp_path, "csv", "csv")
    target = tmp_path / "out.csv"

    def in_the_way(questions: dict[str, list[Any]]) -> dict[str, list[Any]]:
        target.mkdir(exist_ok=True)
        return squared(questions)

    with pytest.raises(InvalidSpecError, match=r"not a regular file; 23 answered rows kept"):
        answer_table(in_the_way, output, ASKED)
    target.rmdir()
    answer_table(stopping(squared, 0, AssertionError("answered twice")), resumed(output), ASKED)
    assert read_table(target).cells("m") == list(range(ROWS))


def test_rows_answered_with_another_content_of_a_file_are_not_resumed(tmp_path: Path) -> None:
    output = tables(tmp_path, "csv", "csv")
    engine = tmp_path / "mine.toml"
    engine.write_text('base = "vllm"', "utf-8")
    asked = replace(ASKED, set_fields={"engine": str(engine), "note": "n" * 5000})
    with pytest.raises(KeyboardInterrupt):
        answer_table(stopping(squared, 9, KeyboardInterrupt()), output, asked)
    engine.write_text('base = "sglang"', "utf-8")
    with pytest.raises(InvalidSpecError, match="differs in files"):
        answer_table(squared, resumed(output), asked)
    engine.write_text('base = "vllm"', "utf-8")
    assert answer_table(squared, resumed(output), asked)["rows"] == ROWS
