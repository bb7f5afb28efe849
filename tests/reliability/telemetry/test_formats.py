from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.formats import ImportOptions, format_names, import_logs
from perfatlas.reliability.telemetry.history import read_history, write_history
from perfatlas.reliability.telemetry.reading import LogClock
from tests.reliability.telemetry.support import lines, written
from tests.reliability.telemetry.test_sacct import DAY, log, row

FORMATS = format_names()
UTC = ImportOptions(clock=LogClock(zone="UTC"))


def one_of_each(tmp_path: Path) -> dict[str, tuple[Path, ImportOptions]]:
    """Return a log of every format, with one event or more, and what reads it."""
    runs = log(tmp_path, row("7", "NODE_FAIL", f"{DAY}01:00:00", f"{DAY}02:00:00"))
    xid = f"{DAY}01:00:00Z n kernel: NVRM: Xid (PCI:0000:61:00): 79, x"
    kernel, table = written(tmp_path / "kern.log", xid), tmp_path / "table.csv"
    write_history(table, import_logs("xid", [kernel]).history)
    states = "NodeName|TimeStart|TimeEnd|State|Reason"
    down = f"n1|{DAY}01:00:00|{DAY}03:00:00|DOWN*|Not responding"
    target = {"involvedObject": {"kind": "Node", "name": "n1"}, "firstTimestamp": f"{DAY}01:00:00Z"}
    event = {"kind": "Event", "reason": "NodeNotReady", **target}
    return {
        "sacct": (runs, UTC),
        "xid": (kernel, UTC),
        "table": (table, UTC),
        "slurm_events": (written(tmp_path / "events.txt", states, down), UTC),
        "kubernetes": (lines(tmp_path, event, name="k.jsonl"), UTC),
    }


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_every_format_goes_through_a_table_unchanged(
    tmp_path: Path, name: str, suffix: str
) -> None:
    path, options = one_of_each(tmp_path)[name]
    imported = import_logs(name, [path], options)
    history = imported.history
    assert history.size > 0
    assert (imported.runs is not None) == name.startswith("sacct")
    table = tmp_path / f"out{suffix}"
    write_history(table, history)
    back = read_history(table)
    for column in ("start_s_E", "detected_s_E", "recovered_s_E"):
        assert np.array_equal(getattr(back, column), getattr(history, column), equal_nan=True)
    for column in ("node", "device", "component", "cause", "kind", "job"):
        assert getattr(back, column).text() == getattr(history, column).text(), column
    assert [back.place(i) for i in range(back.size)] == [
        history.place(i) for i in range(history.size)
    ]
    assert back.files[0].data_hash == history.files[0].data_hash


def test_a_table_by_anybody(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "start_s,component,cause,kind,node\n2026-03-02T01:00:00Z,nic,flap,failure,n1\n"
        "1772413260,nic,flap,failure,7\n",
        "utf-8",
    )
    history = read_history(path)
    assert history.start_s_E.tolist() == [1772413200.0, 1772413260.0]
    assert history.node.text() == ["n1", "7"]
    assert history.place(1) == f"{path}:2"


@pytest.mark.parametrize("name", FORMATS)
def test_a_log_that_is_given_twice_is_refused(tmp_path: Path, name: str) -> None:
    path, options = one_of_each(tmp_path)[name]
    copy = tmp_path / f"copy{path.suffix}"
    copy.write_bytes(path.read_bytes())
    for second in (path, copy):
        with pytest.raises(InvalidSpecError, match=r"count twice|given twice|twice"):
            import_logs(name, [path, second], options)
