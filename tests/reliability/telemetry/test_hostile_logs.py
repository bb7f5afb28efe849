"""Whatever a log holds, a reader reads it whole, or refuses it with its name."""

from __future__ import annotations

import gzip
import os
import threading
import tracemalloc
import zlib
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats import ImportOptions, import_logs
from perfatlas.reliability.telemetry.reading import LogClock
from perfatlas.reliability.telemetry.reading.lines import MAX_LINE_BYTES
from tests.reliability.telemetry.support import check_law

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfatlas.reliability.telemetry.reading import FileCounts

    Reader = Callable[[Path], tuple[FileCounts, ...]]

OPTIONS = ImportOptions(clock=LogClock(zone="UTC", year=2026, boot_s=0.0, node="n"))


def _files(name: str, path: Path) -> tuple[FileCounts, ...]:
    return import_logs(name, [path], OPTIONS).history.files


FORMATS = ("sacct", "xid", "slurm_events", "kubernetes")
READERS: dict[str, Reader] = {name: partial(_files, name) for name in FORMATS}
STARTS = {
    "sacct": b"JobID|State|Start|End\n",
    "xid": b"2026-03-02T01:00:00Z n kernel: NVRM: Xid (PCI:0000:61:00): ",
    "slurm_events": b"NodeName|TimeStart|TimeEnd|State|Reason\n",
    "kubernetes": b'{"items": [{"kind": "Pod", "metadata": {"name": "p"}, ',
}


def read_or_refuse(name: str, path: Path, data: bytes) -> str:
    """Read bytes; return the refusal, or "" where they were read whole."""
    path.write_bytes(data)
    try:
        files = READERS[name](path)
    except InvalidSpecError as problem:
        assert path.name in str(problem)  # noqa: PT017
        return str(problem)
    check_law(files)
    return ""


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
@given(tail=st.binary(max_size=200), begun=st.booleans())
def test_any_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    suffix: str,
    tail: bytes,
    begun: bool,  # noqa: FBT001
) -> None:
    path = tmp_path_factory.mktemp("any") / f"log{suffix}"
    read_or_refuse(name, path, (STARTS[name] if begun else b"") + tail)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "is empty"),
        (b"\xff\xfe{\x00", "UTF-16"),
        (b"PK\x03\x04zzzzz", "a zip archive"),
        (b"\x28\xb5\x2f\xfdzzzz", "zstd-compressed"),
        (gzip.compress(b"x" * 999, mtime=0)[:20], "truncated or damaged"),
        (b"\x1f\x8bnot gzip at all", "truncated or damaged"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (bytes(range(256)) * 40, "not a text file"),
        (gzip.compress(bytes(range(256)) * 40, mtime=0), "not a text file"),
    ],
)
def test_what_is_no_text(tmp_path: Path, name: str, data: bytes, problem: str) -> None:
    assert problem in read_or_refuse(name, tmp_path / "log.json", data)


@pytest.mark.parametrize("name", READERS)
def test_no_file_and_a_folder(tmp_path: Path, name: str) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        with pytest.raises(InvalidSpecError, match=r"cannot be read|is a folder"):
            READERS[name](path)


@pytest.mark.parametrize("name", ["kubernetes"])
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_deep_nesting_is_refused(tmp_path: Path, name: str, suffix: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert read_or_refuse(name, tmp_path / f"log{suffix}", b'{"a": ' + deep + b"}")


@pytest.mark.parametrize("name", ["sacct", "xid"])
def test_endless_lines_are_refused(tmp_path: Path, name: str) -> None:
    data = STARTS[name] + b"x" * (MAX_LINE_BYTES + 1)
    assert "longer than 16 MiB" in read_or_refuse(name, tmp_path / "log.txt", data)


LINE = b"2026-03-02T01:00:00Z n kernel: NVRM: Xid (PCI:0000:61:00): %d, told\n"
# codes change from line to line, so that none is a repeat and gzip cannot tell it all at once
LINES = b"".join(LINE % (31 + random % 90) for random in range(0, 40_000, 7))


@pytest.mark.parametrize("name", ["kern.log.gz", "kern.log"])
def test_gzip_is_told_by_its_bytes_and_may_have_several_members(tmp_path: Path, name: str) -> None:
    half = LINES.index(b"\n", len(LINES) // 2) + 1
    plain, packed = tmp_path / "plain", tmp_path / name
    plain.write_bytes(LINES)
    packed.write_bytes(gzip.compress(LINES[:half]) + gzip.compress(LINES[half:]))
    (one,), (two,) = READERS["xid"](plain), READERS["xid"](packed)
    assert (one.total, one.parsed, one.merged) == (two.total, two.parsed, two.merged)
    assert one.total == LINES.count(b"\n")


@pytest.mark.parametrize("lost", [4, 1000])
def test_a_cut_gzip_is_refused_at_the_line_it_ends_in(tmp_path: Path, lost: int) -> None:
    data = gzip.compress(LINES, mtime=0)[:-lost]
    whole = zlib.decompressobj(wbits=31).decompress(data).count(b"\n")
    told = read_or_refuse("xid", tmp_path / "kern.log.gz", data)
    assert f"line {whole + 1}: truncated or damaged gzip compression" in told


def test_a_long_line_inside_gzip_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "kern.log.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(256):
            file.write(b"x" * (1 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidSpecError, match="line 1: longer than 16 MiB"):
            READERS["xid"](path)
        assert tracemalloc.get_traced_memory()[1] < 4 * MAX_LINE_BYTES
    finally:
        tracemalloc.stop()


def test_a_pipe_is_read_as_a_file_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(gzip.compress(LINES),))
    writer.start()
    (counts,) = READERS["xid"](pipe)
    writer.join()
    assert counts.total == LINES.count(b"\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_bytes(LINES)
    path.chmod(0)
    with pytest.raises(InvalidSpecError, match="Permission denied"):
        READERS["xid"](path)


def test_zeros_that_a_crash_left_are_no_reason_to_refuse(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_bytes(b"\0" * 5000 + b"\n" + LINES)
    (counts,) = READERS["xid"](path)
    assert counts.ignored["line without an Xid"] == 1


@pytest.mark.parametrize("suffix", [".txt", ".jsonl"])
@pytest.mark.parametrize(
    ("header", "command"),
    [
        ("LAST SEEN   TYPE      REASON   OBJECT", "kubectl get events -o json"),
        ("NAMESPACE   LAST SEEN   TYPE      REASON   OBJECT", "kubectl get events -o json"),
        ("NAME       STATUS   ROLES   AGE   VERSION", "kubectl get nodes -o json"),
        ("NAMESPACE   NAME   READY   STATUS   RESTARTS   AGE", "kubectl get pods -o json"),
    ],
)
def test_tables_of_kubectl_name_the_command(
    tmp_path: Path, suffix: str, header: str, command: str
) -> None:
    text = f"{header}\n12m   Warning   NodeNotReady   node/gpu-017\n"
    assert command in read_or_refuse("kubernetes", tmp_path / f"log{suffix}", text.encode())
