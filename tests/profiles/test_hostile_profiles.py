"""Damaged, foreign and hostile files give results with a note, or an error that says what to do."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from perfatlas.cli import main
from perfatlas.profiles import explain, import_profile, read_rules
from perfatlas.profiles.formats import json_stream
from perfatlas.quantities import InvalidSpecError
from tests.profiles.samples import NCCL, NCU, NVBENCH, event, nsys_database, trace, written


def test_a_truncated_trace_has_the_events_before_its_end(tmp_path: Path) -> None:
    text = json.dumps(trace())
    path = tmp_path / "t.json"
    path.write_text(text[: text.index("Memcpy DtoH")])
    results = explain([import_profile(path)], read_rules())
    assert results["kernels"] == 3
    assert "the file ends, or is damaged, after 11 events" in results["integrity"][0]


def test_a_gzip_file_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    content = trace()
    content["traceEvents"] += [
        event("kernel", f"gemm_{at * 7919 % 1000003}", 300.0 + at, 0.5, correlation=at)
        for at in range(20000)
    ]
    data = gzip.compress(json.dumps(content).encode())
    path = tmp_path / "t.json.gz"
    path.write_bytes(data[: len(data) // 2])
    results = explain([import_profile(path)], read_rules())
    assert 1000 < results["kernels"] < 20004
    assert "later events are missing" in results["integrity"][0]


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_do_not_matter(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "t.json", trace() | {"note": "é" * 5, "last": 12})
    expected = explain([import_profile(path)], read_rules())
    monkeypatch.setattr(json_stream, "CHUNK_BYTES", chunk)
    assert explain([import_profile(path)], read_rules()) == expected


def test_events_without_a_valid_time_are_counted(tmp_path: Path) -> None:
    content = trace()
    wrong: list[dict[str, Any]] = [
        *({"ts": "1"}, {"dur": None}, {"dur": -1.0}, {"ts": float("nan")}, {"ts": 10**400}),
        *({"args": []}, {"args": {"correlation": "x"}}, {"dur": [1]}),
    ]
    content["traceEvents"] += [event("kernel", "k", 1.0, 1.0) | one for one in wrong]
    content["traceEvents"] += [5, None, ["kernel"]]
    content["traceEvents"] += [{"ph": "X", "cat": ["kernel"]}, {"ph": "X", "cat": "kernel"}]
    results = explain([import_profile(written(tmp_path / "t.json", content))], read_rules())
    assert results["kernels"] == 4
    assert "12 events without a valid time were left out" in results["integrity"]


HOSTILE = {
    "empty.json": b"",
    "words.json": b"nothing here",
    "gzip.json.gz": b"\x1f\x8b\x08\x00garbage",
    "garbage.json": b'{"traceEvents": [{"ph": "X"} {"ph"]}',
    "deep.json": b'{"traceEvents": [' + b"[" * 100000,
    "other.json": b'{"nodes": [], "schema": "1.1.1"}',
    "number.json": b'{"traceEvents": ' + b"9" * 5000 + b"}",
    "list.json": b'[{"a": 1}, 2, {"b": 3}, "x"]'.replace(b"{", b'{"ph": "Q", '),
    "null.json": b'{"traceEvents": null}',
    "report.nsys-rep": b"\x00\x01",
    "report.ncu-rep": b"\x00\x01",
    "base.sqlite": b"SQLite format 3\x00" + b"\xff" * 4000,
    "table.csv": b'"ID","Kernel Name","Metric Name"\n"0","k\x00',
    "nccl.log": b"# Using devices\n# nothing\n",
    "bench.json": b'{"meta": {"version": {"nvbench": 1}}, "devices": [{"id": 0}], "benchmarks": 3}',
}


@pytest.mark.parametrize("name", [name for name in HOSTILE if name != "list.json"])
def test_a_file_that_is_no_profile_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(HOSTILE[name])
    assert main(["profile", str(path)]) == 3
    assert "profile" in capsys.readouterr().err


def test_a_database_with_other_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE notes (text)")
    base.close()
    with pytest.raises(InvalidSpecError, match="Nsight Systems"):
        import_profile(path)
    path.unlink()
    nsys_database(path)
    with sqlite3.connect(path) as base:
        base.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE end = 3000")
    base.close()
    with pytest.raises(InvalidSpecError, match="no valid export"):
        import_profile(path)


def test_formats_are_not_mixed(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text(NCCL)
    (tmp_path / "a.csv").write_text(NCU)
    written(tmp_path / "a.json", NVBENCH)
    profiles = [import_profile(tmp_path / name) for name in ("a.log", "a.csv", "a.json")]
    with pytest.raises(InvalidSpecError, match="several formats"):
        explain(profiles, read_rules())
