from __future__ import annotations

import html
from pathlib import Path

from perfatlas.reliability.fleet.model import fleet_facts
from perfatlas.reliability.fleet.model.fleet_file import read_fleet
from perfatlas.reliability.telemetry.formats import read_sacct
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from perfatlas.reliability.telemetry.formats.slurm_fields import STATES
from perfatlas.reliability.telemetry.history import history_facts
from perfatlas.report.pages import page_html
from perfatlas.verbs.fleet import fleet_page, history_page
from perfatlas.verbs.fleet.glossary import CAUSES


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
