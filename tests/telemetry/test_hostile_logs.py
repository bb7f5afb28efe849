"""Whatever a log holds, a reader reads it whole, or refuses it with its name."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.telemetry.dcgm import read_dcgm
from perfatlas.telemetry.goodput_log import read_goodput_log
from perfatlas.telemetry.job_log import read_job_log
from perfatlas.telemetry.lines import LONGEST_LINE_BYTES
from perfatlas.telemetry.nvsentinel import read_nvsentinel
from perfatlas.telemetry.problem_detector import DetectorRules, read_problems
from perfatlas.telemetry.sacct import read_sacct
from perfatlas.telemetry.sacct_json import read_sacct_json
from perfatlas.telemetry.stamps import Clock
from perfatlas.telemetry.xid_log import read_xid_log
from tests.telemetry.support import check_law

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfatlas.telemetry.counts import FileCounts

    Reader = Callable[[Path], tuple[FileCounts, ...]]

RULES = [DetectorRules(source="x", reasons=frozenset({"y"}), conditions=frozenset({"z"}))]
CLOCK = Clock(zone="UTC", year=2026, boot_s=0.0, node="n")
READERS: dict[str, Reader] = {
    "sacct": lambda path: read_sacct([path], zone="UTC").files,
    "sacct_json": lambda path: read_sacct_json([path]).files,
    "xid": lambda path: read_xid_log([path], clock=CLOCK).files,
    "dcgm": lambda path: read_dcgm([path], scraped={str(path): 1.0}).files,
    "problems": lambda path: read_problems([path], RULES).files,
    "nvsentinel": lambda path: read_nvsentinel([path]).files,
    "goodput": lambda path: read_goodput_log([path]).files,
    "job_log": lambda path: read_job_log([path]).files,
}
STARTS = {
    "sacct": b"JobID|State|Start|End\n",
    "sacct_json": b'{"jobs": [',
    "xid": b"2026-03-02T01:00:00Z n kernel: NVRM: Xid (PCI:0000:61:00): ",
    "dcgm": b'DCGM_FI_DEV_XID_ERRORS{Hostname="n",UUID="u"} ',
    "problems": b'{"items": [{"kind": "Event", ',
    "nvsentinel": b'[{"nodeName": "n", "checkName": "c", ',
    "goodput": b'[{"job_name": "j", ',
    "job_log": b'[{"event": "start", ',
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
        (gzip.compress(b"x" * 999, mtime=0)[:20], "cut off or damaged"),
        (b"\x1f\x8bnot gzip at all", "cut off or damaged"),
    ],
)
def test_what_is_no_text(tmp_path: Path, name: str, data: bytes, problem: str) -> None:
    assert problem in read_or_refuse(name, tmp_path / "log.json", data)


@pytest.mark.parametrize("name", READERS)
def test_no_file_and_a_folder(tmp_path: Path, name: str) -> None:
    for path in (tmp_path / "none.log", tmp_path):
        with pytest.raises(InvalidSpecError, match="cannot be read"):
            READERS[name](path)


@pytest.mark.parametrize("name", ["sacct_json", "problems", "nvsentinel", "goodput", "job_log"])
@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_deep_nesting_is_refused(tmp_path: Path, name: str, suffix: str) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert read_or_refuse(name, tmp_path / f"log{suffix}", b'{"a": ' + deep + b"}")


@pytest.mark.parametrize("name", ["sacct", "xid", "dcgm"])
def test_endless_lines_are_refused(tmp_path: Path, name: str) -> None:
    data = STARTS[name] + b"x" * (LONGEST_LINE_BYTES + 1)
    assert "longer than 16 MiB" in read_or_refuse(name, tmp_path / "log.txt", data)
