"""Errors of invalid traces: typed errors with file, location and rule, never a traceback."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError, PerfatlasError
from perfatlas.serving.traces import TraceWindow, blocks as trace_blocks, read_requests
from perfatlas.serving.traces.formats import REQUEST_FORMATS
from perfatlas.vocabulary.fields import MAX_S
from tests.serving.support import FIXTURES, check_invariants

MOONCAKE = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}
HEADERS = {
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n",
    "perfatlas": "arrival_s,isl,osl\n0,5,5\n",
}


def refusal(path: Path, name: str, window: TraceWindow | None = None) -> str:
    with pytest.raises(InvalidSpecError) as error:
        read_requests(path, name, window or TraceWindow())
    message = str(error.value)
    assert path.name in message
    return message


def jsonl(folder: Path, *rows: Mapping[str, object]) -> Path:
    path = folder / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("name", sorted(REQUEST_FORMATS))
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\n\n \n", ""),
        (gzip.compress(b"x" * 999, mtime=0)[:-9], "line 1: truncated or damaged gzip"),
        (b"\x1f\x8bgarbage", "damaged gzip"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"PAR1\x00\x00", "name it .parquet"),
        (b"\x00\xff\xfe\x01" * 99, ""),
        (b"\xff\xd8\xff\xe0\n\x00\n", ""),
        (b"[]\n", ""),
        (b"{}\n", ""),
        (b"[" * 100_000, ""),
        (b'{"a": ' * 100_000, ""),
        (b"a,b,c\n1,2,3\n", ""),
        (b"\n" * 9 + b"null\n", ""),
    ],
)
def test_no_file_breaks_a_reader(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / ("a.csv" if name in HEADERS else "a.jsonl")
    path.write_bytes(content)
    assert words in refusal(path, name)


@pytest.mark.parametrize("name", sorted(REQUEST_FORMATS))
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    assert "No such file" in refusal(tmp_path / "none.csv", name)
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in refusal(tmp_path / "folder.csv", name)


def test_lines_are_counted_over_blocks_and_blanks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_blocks, "BLOCK_BYTES", 256)
    row = json.dumps(MOONCAKE)
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join([*[row] * 40, "", *[row] * 40, "{", row]))
    assert "line 82: not JSON" in refusal(path, "mooncake")


def test_a_line_without_end_is_refused_before_memory_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_blocks, "MAX_LINE_BYTES", 1 << 20)
    monkeypatch.setattr(trace_blocks, "BLOCK_BYTES", 1 << 16)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"[" + b"1," * (1 << 21))
    assert "line 1: longer than 1 MiB" in refusal(path, "mooncake")


def test_wrong_parquet_files_name_the_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    good = {"arrival_s": [0.0, 1.0], "isl": [5, 6], "osl": [7, 8]}
    for change, words in (
        ({"arrival_s": [0.0, float("nan")]}, "row 2: arrival_s = nan is not a number"),
        ({"isl": [5, None]}, "row 2: isl = None: expected a whole number"),
        ({"isl": [5.0, 6.5]}, "row 2: isl = 6.5: expected a whole number"),
        ({"isl": [True, False]}, "row 1: isl = True: expected a whole number"),
        ({"osl": ["7", "x"]}, "row 2: osl = 'x': expected a whole number"),
        ({"osl": [[7], [8]]}, "row 1: osl = a list of 1 items: expected a whole number"),
    ):
        pq.write_table(pa.table(good | change), path)
        assert words in refusal(path, "perfatlas")
    pq.write_table(pa.table({"arrival": [0.0], "isl": [5], "osl": [7]}), path)
    assert "missing column 'arrival_s'" in refusal(path, "perfatlas")
    path.write_bytes(path.read_bytes()[:-9])
    assert "is not a Parquet file" in refusal(path, "perfatlas")
    path.write_text("arrival_s,isl,osl\n")
    assert "is not a Parquet file" in refusal(path, "perfatlas")
    path.unlink()
    assert "No such file" in refusal(path, "perfatlas")


def test_a_trace_longer_than_a_simulation_is_read_by_windows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"arrival_s,isl,osl\n0,5,5\n{MAX_S + 1},6,6\n{MAX_S + 2},7,7\n")
    assert "read a window" in refusal(path, "perfatlas")
    trace = read_requests(path, "perfatlas", TraceWindow(start_s=MAX_S))
    assert trace.requests.isl_N.tolist() == [6, 7]
    assert trace.requests.arrival_N.tolist() == [10**12, 2 * 10**12]


@pytest.mark.parametrize(
    "fields", [{"first": 0}, {"start_s": -1.0}, {"start_s": 5.0, "end_s": 5.0}]
)
def test_empty_windows_are_refused(fields: dict[str, float]) -> None:
    with pytest.raises(InvalidSpecError, match="window"):
        TraceWindow(**fields)  # type: ignore[arg-type]


@given(
    st.sampled_from(sorted(REQUEST_FORMATS)),
    st.binary(max_size=40) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace")),
    st.integers(0, 400),
)
def test_bytes_written_over_a_sample_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, name: str, noise: bytes, place: int
) -> None:
    files = {"vllm": "vllm_bench.json", "aiperf": "aiperf_profile_export.jsonl"}
    content = (
        (FIXTURES / files[name]).read_bytes()
        if name in files
        else HEADERS.get(name, json.dumps(MOONCAKE) + "\n").encode() * 2
    )
    path = tmp_path_factory.mktemp("noise") / ("a.csv" if name in HEADERS else "a.jsonl")
    path.write_bytes(content[:place] + noise + content[place + len(noise) :])
    try:
        trace = read_requests(path, name)
    except PerfatlasError as error:
        assert path.name in str(error)  # noqa: PT017
    else:
        check_invariants(trace.requests)


def test_a_compressed_trace_is_read_like_a_plain_one(tmp_path: Path) -> None:
    rows = [MOONCAKE | {"timestamp": 1000 * n} for n in range(3)]
    plain = jsonl(tmp_path, *rows)
    packed = tmp_path / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    one, other = (read_requests(path, "mooncake").requests for path in (plain, packed))
    np.testing.assert_equal(one._asdict(), other._asdict())
    own = tmp_path / "own.csv.gz"
    own.write_bytes(gzip.compress(b"arrival_s,isl,osl\n0,10,2\n1.5,20,3\n"))
    assert read_requests(own, "perfatlas").requests.isl_N.tolist() == [10, 20]
