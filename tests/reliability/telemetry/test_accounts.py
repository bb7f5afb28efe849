"""Every line of every format is parsed, merged or ignored, and what it told is not lost."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from perfatlas.cli import main
from perfatlas.reliability.telemetry.formats import read_sacct
from perfatlas.reliability.telemetry.formats.goodput_log import read_goodput_log
from perfatlas.reliability.telemetry.formats.nvsentinel import read_nvsentinel
from perfatlas.reliability.telemetry.formats.problem_detector import read_problems
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from tests.reliability.telemetry.support import check_law
from tests.reliability.telemetry.test_json_logs import RULES, document, health, lines
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
    "dcgm": (
        """# HELP DCGM_FI_DEV_XID_ERRORS last code
DCGM_FI_DEV_XID_ERRORS{UUID="u",Hostname="n"} 0 1772323200000
DCGM_FI_DEV_GPU_TEMP{UUID="u",Hostname="n"} 40 1772323200000
DCGM_FI_DEV_XID_ERRORS{UUID="u",Hostname="n"} 79 1772323230000
DCGM_FI_DEV_XID_ERRORS{UUID="u",Hostname="n"} 79 1772323260000
DCGM_FI_DEV_XID_ERRORS{UUID="u",Hostname="n"} NaN 1772323290000
""",
        [],
        {"lines": 6, "events": 1, "merged": 1, "ignored": 4},
    ),
    "nvsentinel": (
        "".join(
            json.dumps(one) + "\n"
            for one in (
                health(0, errorCode=["79"], isFatal=True),
                health(1, errorCode=["79"], isFatal=True),
                health(2, isHealthy=True),
                health(3, isHealthy=True),
            )
        ),
        [],
        {"lines": 4, "events": 1, "merged": 2, "ignored": 1},
    ),
    "ml_goodput": (
        """{"job_name": "j", "job_start_time": 1000}
{"job_name": "j", "tpu_init_start_time": 1000}
{"job_name": "j", "tpu_init_end_time": 1010}
{"job_name": "j", "step_count": 0, "step_start_time": 1020}
{"job_name": "j", "data_loading_end_time": 1030}
{"job_name": "j", "odd": 1}
{"job_name": "j", "job_start_time": 1100}
""",
        [],
        {"lines": 7, "events": 2, "merged": 3, "ignored": 2},
    ),
    "jobs": (
        """{"job": "j", "event": "start", "time": 1772323200}
{"job": "j", "event": "interrupt", "cause": "x", "time": 1772323210}
{"job": "j", "event": "detected", "time": 1772323220}
{"job": "j", "event": "running", "time": 1772323230}
{"job": "j", "event": "end", "time": 1772323240}
""",
        [],
        {"lines": 5, "events": 1, "merged": 2, "ignored": 2},
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


def test_a_fault_that_spreads_to_another_device_is_a_fault_of_that_one(tmp_path: Path) -> None:
    def gpus(*numbers: int) -> list[dict[str, str]]:
        return [{"entityType": "GPU", "entityValue": str(number)} for number in numbers]

    fault: dict[str, Any] = {"errorCode": ["79"], "isFatal": True}
    path = lines(
        tmp_path,
        health(0, entitiesImpacted=gpus(1), **fault),
        health(1, entitiesImpacted=gpus(1, 2), **fault),
        health(2, entitiesImpacted=gpus(2), **fault),
        health(3, entitiesImpacted=gpus(2), isHealthy=True),
    )
    history = read_nvsentinel([path])
    assert history.device.text() == ["1", "2"]
    assert history.files[0].merged == {
        "repeat of an uncleared fault": 1,
        "healthy event that clears a fault": 1,
    }
    lasted = (history.recovered_s_E - history.start_s_E).tolist()
    assert lasted[0] != lasted[0]  # GPU 1 is not cleared
    assert lasted[1] == 2.0


def test_further_error_codes_are_told(tmp_path: Path) -> None:
    history = read_nvsentinel([lines(tmp_path, health(0, errorCode=["48", "63"]))])
    assert history.cause.text() == ["xid_48"]
    assert history.files[0].repaired == {
        "several error codes in one event, named after the first": 1
    }


def test_conditions_of_no_rule_are_told(tmp_path: Path) -> None:
    def node(name: str, **conditions: str) -> dict[str, Any]:
        listed = [
            {"type": kind, "status": status, "lastTransitionTime": "2026-03-02T01:00:00Z"}
            for kind, status in conditions.items()
        ]
        return {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": listed}}

    items = [
        node("a", Ready="True", KernelDeadlock="False"),
        node("b", Ready="True", MemoryPressure="True"),
        node("c", DiskPressure="True", KernelDeadlock="True"),
    ]
    history = read_problems([document(tmp_path, {"items": items})], [RULES])
    assert history.node.text() == ["c"]
    (counts,) = history.files
    assert counts.ignored == {
        "node without a problem": 1,
        "condition MemoryPressure is not in the rules": 1,
    }
    assert counts.repaired == {"condition DiskPressure, not in the rules, ignored": 1}


def test_an_entry_with_both_ends_of_a_span_has_both(tmp_path: Path) -> None:
    entry = {"job_name": "j", "tpu_init_start_time": 1000.0, "tpu_init_end_time": 1012.5}
    run = {"job_name": "j", "job_start_time": 1000.0, "job_end_time": 1100.0}
    again = {"job_name": "j", "job_start_time": 1200.0}
    history = read_goodput_log([lines(tmp_path, run, entry, again)])
    assert (history.recovered_s_E - history.start_s_E).tolist() == [12.5]
    assert "restart" not in history.cause.text()


def test_lines_of_json_under_another_name_are_told_which_name_to_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "jobs.log"
    path.write_text(LOGS["jobs"][0], "utf-8")
    words = ["fleet", "import", "--format", "jobs", str(path), "--output", str(tmp_path / "h.csv")]
    assert main(words) == 3
    assert "must end in .jsonl or .ndjson" in capsys.readouterr().err


def test_one_thing_is_told_in_the_singular(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "kern.log"
    path.write_text(LOGS["xid"][0].splitlines()[0] + "\n", "utf-8")
    assert main(["fleet", "import", "--format", "xid", str(path), "--output", f"{path}.csv"]) == 0
    text = capsys.readouterr().out
    assert "1 event: 1 failure\n" in text
    assert "kern.log: 1 line\n" in text
