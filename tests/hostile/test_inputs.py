"""Damaged, endless and misplaced inputs of commands: a named error, never a defect or a hang."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from perfatlas.cli import main
from perfatlas.declarations import commands, has_fields, verb_fields
from tests.profiles.samples import trace

INVALID: Final = 3
DAMAGED: Final = 40  # files of each compression
QUESTION: Final = ["--model=openai/gpt-oss-20b", "--system=h200_sxm"]
# commands that read the file IN, with its extension
READING: Final[tuple[tuple[str, list[str]], ...]] = (
    ("estimate --table IN.csv --output OUT.csv", QUESTION),
    ("estimate --table IN.parquet --output OUT.csv", QUESTION),
    ("estimate --scenario IN.toml", []),
    ("estimate --model IN.json --system h200_sxm", []),
    ("estimate --model openai/gpt-oss-20b --system IN.toml", []),
    ("simulate --requests IN.csv", QUESTION),
    ("profile IN.json", []),
    ("validate serving --results IN.json", QUESTION),
    ("fleet import IN.log --format xid --output OUT.csv", []),
    ("sweep IN.toml", []),
    ("report IN.json", []),
)


# logs are read once, from pipes too
ENDLESS: Final = [
    (*read, kind)
    for read in READING
    for kind in ("pipe", "device")
    if not (kind == "pipe" and read[0].startswith("fleet import"))
]


@pytest.mark.parametrize(("line", "further", "kind"), ENDLESS)
def test_inputs_that_never_end_are_refused(
    line: str, further: list[str], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (name,) = (word for word in line.split() if word.startswith("IN"))
    path = tmp_path / name
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    words = line.replace("IN", f"{tmp_path}/IN").replace("OUT", f"{tmp_path}/OUT").split()
    assert main([*words, *further]) == INVALID
    assert "a regular file" in " ".join(capsys.readouterr().err.split())


def test_every_number_refuses_a_word() -> None:
    numbers = {
        (name, field.number)
        for command in commands()
        if has_fields(command)
        for name, field in verb_fields(command).items()
        if field.number is not None
    }
    assert len(numbers) > 100
    for name, number in numbers:
        with pytest.raises(ValueError, match="expected"):
            number.read("abc")
        assert name


@pytest.mark.parametrize("compression", ["snappy", "gzip", "zstd", "none"])
def test_damaged_parquet_files_are_refused(
    compression: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, drawn = tmp_path / "in.parquet", random.Random(compression)  # noqa: S311
    table = pa.table({"model": ["openai/gpt-oss-20b"] * 50, "batch": list(range(1, 51))})
    pq.write_table(table, path, compression=compression, use_dictionary=False)
    content = path.read_bytes()
    codes = []
    for _ in range(DAMAGED):
        damaged = bytearray(content)
        for _ in range(drawn.choice([1, 4, 20])):
            damaged[drawn.randrange(4, len(content) - 8)] = drawn.randrange(256)
        path.write_bytes(damaged)
        words = ["--table", str(path), "--output", str(tmp_path / "out.csv"), *QUESTION[1:]]
        codes.append(main(["estimate", "--tier=bound", *words]))
    assert set(codes) <= {0, INVALID}
    assert codes.count(INVALID) > DAMAGED // 4
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("device", [None, "x", [0], {}, 1.5, -1, True, 10**400])
def test_odd_numbers_of_devices_in_a_trace_are_no_defect(
    device: Any,  # noqa: ANN401 - any JSON value
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "trace.json"
    named = {"deviceProperties": [{"id": device, "name": "NVIDIA H100 80GB HBM3"}]}
    path.write_text(json.dumps(trace() | named))
    assert main(["profile", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    assert found["device"] == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize("varied", ["batch = [1, 2]", '"device.tdp" = ["500W", "600W"]'])
def test_a_range_is_no_value_of_a_scenario(
    varied: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        'verb = "estimate"\nobjective = "tpot_s"\n[scenario]\nmodel = "openai/gpt-oss-20b"\n'
        f"system = {{from = 1, to = 4, steps = 3}}\n[vary]\n{varied}\n"
    )
    assert main(["sweep", str(path)]) == INVALID
    assert "a range belongs into [vary]" in " ".join(capsys.readouterr().err.split())


def test_results_without_a_file_are_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "serving", "--results", "--system", "h200_sxm"]) == 2
    assert "missing --results" in capsys.readouterr().err
