"""Every line of every format is parsed, merged or ignored, and what it told is not lost."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.cli import main
from perfatlas.reliability.telemetry.formats import read_sacct
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from tests.reliability.telemetry.support import check_law
from tests.reliability.telemetry.test_sacct import DAY, log, row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    Captured = pytest.CaptureFixture[str]

LONG = [f"{DAY}01:00:00", f"{DAY}02:00:00"]
SACCT = "JobID|State|SubmitLine|Start|End|NodeList|AllocTRES"
GPUS = "billing=8,gres/gpu:h100=16,mem=62500G"
LOGS: dict[str, tuple[str, list[str], dict[str, int]]] = {
    # the run of job 7 twice, a step, a line break in a command, what never started
    "sacct": (
        f"""{SACCT}
7|NODE_FAIL|a|{DAY}01:00:00|{DAY}02:00:00|n[1-2,07]|{GPUS}
7|COMPLETED|a|{DAY}03:00:00|{DAY}04:00:00|n[1-2,07]|{GPUS}
7|COMPLETED|a|{DAY}03:00:00|{DAY}04:00:00|n[1-2,07]|{GPUS}
7.batch|FAILED|a|{DAY}03:00:00|{DAY}04:00:00|n1|{GPUS}
8|CANCELLED by 12|two
 lines|{DAY}03:00:00|{DAY}04:00:00|n[1820-1822,1838]|{GPUS}
9_[3-7%2]|PENDING|a|Unknown|Unknown|None assigned|
""",
        ["--zone", "UTC"],
        {"lines": 8, "events": 2, "merged": 2, "ignored": 4},
    ),
    "xid": (
        """2026-03-01T00:00:00Z n1 kernel: NVRM: Xid (PCI:0000:61:00): 79, pid='<unknown>', off
2026-03-01T00:00:02Z n1 kernel: NVRM: Xid (PCI:0000:61:00): 79, GPU has fallen off the bus.
2026-03-01T00:00:02Z n1 kernel: NVRM: Xid (PCI:00000000:61:00): 154, action changed
2026-03-01T00:00:03Z n1 kernel: NVRM: Xid (somewhere): 13
2026-03-01T00:00:03Z n1 kernel: usb 1-1: new device

""",
        [],
        {"lines": 6, "events": 2, "merged": 1, "ignored": 3},
    ),
}


def imported(name: str, path: Path, words: Sequence[str], capsys: Captured) -> dict[str, Any]:
    output = path.with_name("history.csv")
    asked = ["fleet", "import", "--format", name, str(path), *words, "--output", str(output)]
    assert main([*asked, "--json"]) == 0
    results: dict[str, Any] = json.loads(capsys.readouterr().out)["results"]
    return results


@pytest.mark.parametrize("name", LOGS)
def test_lines_parsed_merged_and_ignored_add_up_to_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text, words, expected = LOGS[name]
    assert text.count("\n") == expected["lines"]
    assert expected["lines"] == sum(expected[n] for n in ("events", "merged", "ignored"))
    told = []
    for file, data in (
        ("log.jsonl", text.encode()),
        ("log.jsonl.gz", gzip.compress(text.encode())),
    ):
        path = tmp_path / file
        path.write_bytes(data)
        results = imported(name, path, words, capsys)
        (counts,) = results["files"]
        assert results["events"] == counts["parsed"] == expected["events"]
        assert counts["total"] == expected["lines"]
        assert sum(counts["merged"].values()) == expected["merged"]
        assert sum(counts["ignored"].values()) == expected["ignored"]
        told.append({k: v for k, v in counts.items() if k not in ("path", "data_hash")})
    assert told[0] == told[1]


def test_runs_that_are_no_event_are_counted_with_their_reason(tmp_path: Path) -> None:
    path = log(
        tmp_path,
        row("1", "NODE_FAIL", *LONG),
        row("2", "COMPLETED", *LONG),
        row("3", "COMPLETED", *LONG),
        row("4", "RUNNING", LONG[0], "Unknown"),
        row("5", "NODE_FAIL", LONG[0], "Unknown"),
        row("6", "STAGE_OUT", *LONG),
    )
    runs = read_sacct([path], zone="UTC")
    history = run_failures(runs)
    (counts,) = history.files
    check_law(history.files)
    assert history.size == counts.parsed == 1
    assert counts.ignored == {
        "header": 1,
        "run that completed": 2,
        "run that had not ended": 1,
        "run without a recorded end": 1,
        "run in state STAGE_OUT": 1,
    }
    assert counts.first["run that completed"] == 3
    # they stay runs: of the time that nodes were at work
    assert runs.size == runs.files[0].parsed == 6
