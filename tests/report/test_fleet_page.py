from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

import pytest

from perfatlas.reliability.fleet.model import fleet_facts
from perfatlas.reliability.fleet.model.fleet_file import read_fleet
from perfatlas.reliability.telemetry.formats import read_sacct
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from perfatlas.reliability.telemetry.formats.slurm_fields import STATES
from perfatlas.reliability.telemetry.history import history_facts
from perfatlas.report.pages import page_html
from perfatlas.verbs.fleet import fleet_page, history_page
from perfatlas.verbs.fleet.glossary import CAUSES, glossary

if TYPE_CHECKING:
    from pathlib import Path

LARGER_FAILS_SOONER = "The more GPUs a job uses, the sooner"


def cause(name: str, parts: str, mean: str, effect: str = "stops") -> str:
    more = '\nslowdown = 1.5\nlasts = "1 h"' if effect == "slows" else ""
    return (
        f'[[cause]]\nname = "{name}"\n{parts}\neffect = "{effect}"{more}\n'
        f'lifetime = {{ law = "exponential", mean = "{mean}" }}\n'
    )


def page(tmp_path: Path, *causes: str) -> str:
    path = tmp_path / "fleet.toml"
    path.write_text("units = 10\n" + "".join(causes), "utf-8")
    return html.unescape(
        page_html(
            fleet_page("f.toml", fleet_facts(read_fleet(path)), None, reproduce=""), script="none"
        )
    )


def test_a_cause_of_the_job_is_told_per_job(tmp_path: Path) -> None:
    text = page(tmp_path, cause("job_crash", "shared = 1", "2 d"))
    # one part for the whole job, which fails every 2 days whatever the size of the job
    assert "Every job, however many GPUs it uses, is interrupted every 2 days on average" in text
    assert "the number of GPUs of the job has no effect" in text
    assert "2 days, each job" in text
    assert "of all failures of a job on the whole fleet" in text
    assert "A machine in the fleet" not in text
    assert LARGER_FAILS_SOONER not in text


def test_causes_of_machines_and_of_the_job_are_told_apart(tmp_path: Path) -> None:
    job = cause("job_crash", "shared = 1", "2 d")
    text = page(tmp_path, job, cause("host_node_fail", "per_unit = 1", "40 d"))
    # 10 machines that fail every 40 days each: every 4 days somewhere
    assert "A machine in the fleet fails every 4 days on average" in text
    assert "is also interrupted every 2 days on average" in text
    assert LARGER_FAILS_SOONER in text
    slow = cause("hot", "per_unit = 1", "40 d", "slows")
    assert "the number of GPUs" in page(tmp_path, job, slow)
    assert "No cause stops a job" in page(tmp_path, slow)


def test_reasons_that_tie_are_all_named(tmp_path: Path) -> None:
    tied = [cause(f"gpu_xid_{code}", "per_unit = 1", "40 d") for code in (48, 62, 64, 79, 95)]
    text = page(tmp_path, *tied)
    assert "The 5 causes are equally frequent, each 20.0% of all failures:" in text
    assert "(gpu_xid_64) and 2 more." in text
    # 5 of 5.5 failures are of the five: 18.2 % each
    text = page(tmp_path, *tied, cause("rare", "per_unit = 1", "80 d"))
    assert "The 5 most frequent causes are equally frequent, each 18.2% of" in text
    text = page(tmp_path, *tied[:2], cause("often", "per_unit = 1", "20 d"))
    assert "The most frequent cause: often, 50.0% of all failures." in text


def test_slurm_findings_are_described(tmp_path: Path) -> None:
    text = page(tmp_path, cause("host_node_fail", "per_unit = 1", "40 d"))
    assert "a machine stopped answering the scheduler (host_node_fail)" in text
    log = tmp_path / "jobs.txt"
    rows = [f"{n}|{state}|1772413200|1772413260" for n, state in enumerate(STATES)]
    log.write_text("JobID|State|Start|End\n" + "\n".join(rows) + "\n", "utf-8")
    facts = history_facts(run_failures(read_sacct([log], zone="UTC")))
    named = {f"{row['component']}_{row['cause']}" for row in facts["causes"]}
    assert named == {name for name in CAUSES if not name.startswith("hbm_")}
    text = html.unescape(page_html(history_page("jobs", facts, reproduce=""), script="none"))
    for name in named:
        assert CAUSES[name] in text


def test_no_page_takes_every_law_for_memoryless() -> None:
    # half of the gaps are shorter than ln 2 of the mean only where failures have no memory
    assert f"{math.log(2):.1g}" not in str(glossary([]).blocks)


@pytest.mark.parametrize("counted", [6, 1])
def test_lines_read_are_not_taken_for_failures(tmp_path: Path, counted: int) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text("units = 10\n" + cause("x", "per_unit = 1", "40 d"), "utf-8")
    seen = {
        "name": "x",
        "events": 1,
        "mean_time_between": "40 d",
        "mean_time_between_interval": ["10 d", "90 d"],
    }
    evidence = {
        "cause": [seen],
        "file": [{"path": "s.txt", "parsed": counted}],
        "changed": False,
    }
    facts = fleet_facts(read_fleet(path))
    text = page_html(fleet_page("fleet.toml", facts, evidence, reproduce=""), script="none")
    assert "lines that count" not in text
    assert "lines read" in text
    assert f'<tr><td class="text">s.txt</td><td>{counted}</td></tr>' in text
    assert "Not every line is a failure" in text
