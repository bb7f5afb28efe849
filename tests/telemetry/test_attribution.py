from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.telemetry.attribution import attribute_runs
from perfatlas.telemetry.sacct import read_sacct
from perfatlas.telemetry.xid_log import read_xid_log
from tests.telemetry.test_sacct import DAY, log, row

if TYPE_CHECKING:
    from pathlib import Path


def xid(node: str, clock: str, code: int) -> str:
    return f"{DAY}{clock}Z {node} kernel: NVRM: Xid (PCI:0000:61:00): {code}, pid=1"


def test_ends_are_explained_by_their_nodes(tmp_path: Path) -> None:
    runs = read_sacct(
        [
            log(
                tmp_path,
                row("1", "FAILED", f"{DAY}01:00:00", f"{DAY}02:00:00"),
                row("2", "TIMEOUT", f"{DAY}03:00:00", f"{DAY}04:00:00"),
                row("3", "COMPLETED", f"{DAY}04:05:00", f"{DAY}04:30:00"),
                row("4", "NODE_FAIL", f"{DAY}05:00:00", f"{DAY}06:00:00"),
            )
        ],
        zone="UTC",
    )
    kernel = tmp_path / "kern.log"
    lines = [
        xid("n1", "01:49:59", 79),  # a second before the window of run 1
        xid("n9", "01:59:00", 79),  # on a node it did not have
        xid("n1", "01:58:00", 45),  # an effect, which explains nothing
        xid("n2", "01:55:00", 48),
        xid("n1", "01:59:30", 62),  # later than 48 and as strong a claim
        xid("n2", "01:59:40", 32),  # later still, but unclear
        xid("n1", "04:28:00", 48),  # before a run that ended well
        xid("n2", "06:04:00", 79),  # written after the end of run 4
    ]
    kernel.write_text("\n".join(lines) + "\n", "utf-8")
    history = read_xid_log([kernel])
    told = attribute_runs(runs, history)
    causes = [history.cause.text()[event] if event >= 0 else "" for event in told.event_R.tolist()]
    assert causes == ["xid_62", "", "", "xid_79"]
    assert (told.asked, told.explained, told.by_chance, told.well) == (3, 2, 1, 1)
    assert attribute_runs(runs, history, after_s=0.0).explained == 1
    with pytest.raises(InvalidSpecError, match="kinds doom are none of failure"):
        attribute_runs(runs, history, kinds=("doom",))
    with pytest.raises(InvalidSpecError, match="from -1 s before"):
        attribute_runs(runs, history, before_s=-1.0)
