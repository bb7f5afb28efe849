from __future__ import annotations

import datetime as dt
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest

from perfatlas.files import file_hash
from perfatlas.quantities import InvalidSpecError, parse_quantity
from perfatlas.reliability.fleet.model import cause_rate_per_s
from perfatlas.reliability.fleet.model.fleet_file import fleet_of
from perfatlas.reliability.telemetry import fleets
from perfatlas.reliability.telemetry.fleets.laws import MAX_CAUSES
from perfatlas.reliability.telemetry.formats import read_sacct
from perfatlas.reliability.telemetry.formats.run_failures import run_failures
from perfatlas.reliability.telemetry.formats.xid_log import read_xid_log
from perfatlas.reliability.telemetry.history import ObservationWindow, joined, read_history
from tests.reliability.telemetry.support import written
from tests.reliability.telemetry.test_sacct import DAY, log, row

START = 1767225600.0  # 2026-01-01T00:00:00Z
HOUR = 3600.0
NODES, GPUS = 60, 4
END = START + 2000 * HOUR


def stamp(time_s: float) -> str:
    return dt.datetime.fromtimestamp(time_s, dt.UTC).isoformat(timespec="milliseconds")


def health_log(tmp_path: Path) -> Path:
    """Write a history of known laws: Weibull(1.7, 900 h) lifetimes, lognormal repairs."""
    random = np.random.default_rng(11)
    rows = []
    for node in range(NODES):
        for gpu in range(GPUS):
            now = START + 900 * HOUR * random.weibull(1.7)
            while now < END:
                start = now
                now += HOUR * random.lognormal(math.log(2.0), 0.6)
                end = f"{now:.3f}" if now < END else ""
                rows.append((start, f"{start:.3f},{end},gpu,xid_79,failure,n{node},{gpu}"))
                now += 900 * HOUR * random.weibull(1.7)
    header = "start_s,recovered_s,component,cause,kind,node,device"
    return written(tmp_path / "health.csv", header, *(text for _, text in sorted(rows)))


def seconds(text: str) -> float:
    return parse_quantity(text, "s")


def test_a_fleet_of_known_laws_comes_back(tmp_path: Path) -> None:
    history = read_history(health_log(tmp_path))
    new = {f"n{n}/{g}": START for n in range(NODES) for g in range(GPUS)}
    watches = {"gpu": ObservationWindow(START, END, NODES * GPUS, new)}
    fit = fleets.fit_fleet(history, watches, NODES, fleets.FleetOptions(open_is_down=True))
    path = tmp_path / "fleet.toml"
    beside = fleets.write_fleet(path, fit)
    assert beside.name == "fleet.evidence.toml"
    fleet = tomllib.loads(path.read_text("utf-8"))
    evidence = tomllib.loads(beside.read_text("utf-8"))
    assert evidence["fleet_hash"] == file_hash(path)
    assert (fleet["units"], fleet["gpus_per_unit"]) == (NODES, GPUS)
    cause = fleet["cause"][0]
    assert cause["name"] == cause["repair"] == fleet["repair"][1]["name"] == "gpu_xid_79"
    assert cause["per_unit"] == GPUS
    assert cause["ages"] == "mixed"
    assert cause["lifetime"]["law"] == "weibull"
    assert "lemons" not in cause
    told = evidence["cause"][0]
    low, high = told["law_interval"]["shape"]
    assert low < 1.7 < high
    low_s, high_s = map(seconds, told["law_interval"]["scale"])
    assert low_s < 900 * HOUR < high_s
    assert low_s < seconds(cause["lifetime"]["scale"]) < high_s
    assert fleet["repair"][0]["name"] == "observed"
    repair = fleet["repair"][1]["stages"][0]["lasts"]
    assert repair["law"] == "lognormal"
    assert seconds(repair["median"]) == pytest.approx(2.0 * HOUR, rel=0.1)
    assert repair["sigma"] == pytest.approx(0.6, abs=0.06)
    # as long between failures as the rate says: up time over failures
    up_s = NODES * GPUS * 2000 * HOUR - float(np.nansum(history.recovered_s_E - history.start_s_E))
    assert seconds(told["exposure"]) == pytest.approx(up_s, rel=2e-3)
    between_s = seconds(told["exposure"]) / told["events"]
    assert seconds(told["mean_time_between"]) == pytest.approx(between_s, rel=1e-7)
    file = evidence["file"][0]
    assert file["hash"].startswith("sha256:")
    assert file["parsed"] == file["events"]
    assert evidence["watches"]["gpu"]["end"] == dt.datetime.fromtimestamp(END, dt.UTC)
    assert told["repair_taken"] == "gpu_xid_79"
    assert any("weibull fits" in remark for remark in told["remarks"])


def xid_lines(random: np.random.Generator) -> list[str]:
    """Return lines of 200 nodes that fail once in 800 h, 4 of them ten times as often."""
    rows: list[tuple[float, str]] = []
    for node in range(200):
        rate = (10.0 if node < 4 else 1.0) / (800 * HOUR)
        times = START + (END - START) * random.random(random.poisson(rate * (END - START)))
        text = f"n{node} kernel: NVRM: Xid (PCI:0000:61:00): 79, pid=1"
        rows += [(time_s, text) for time_s in times.tolist()]
    return [f"{stamp(time_s)} {text}" for time_s, text in sorted(rows)]


def test_lemons_are_told_apart_from_the_law(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_text("\n".join(xid_lines(np.random.default_rng(3))) + "\n", "utf-8")
    watches = {"gpu": ObservationWindow(START, END, 200 * 8)}
    fit = fleets.fit_fleet(read_xid_log([path]), watches, 200)
    cause, told = fleets.fleet_document(fit)["cause"][0], fleets.evidence_document(fit)["cause"][0]
    assert {lemon["node"] for lemon in told["lemon_nodes"]} == {"n0", "n1", "n2", "n3"}
    assert cause["lemons"]["factor"] == pytest.approx(10.0, rel=0.3)
    assert cause["lemons"]["share"] == pytest.approx(0.02, rel=0.1)
    # a node fails once in 800 h, so each of its 8 GPUs once in 6,400 h
    assert seconds(cause["lifetime"]["mean"]) == pytest.approx(6400 * HOUR, rel=0.15)
    assert cause["per_unit"] == 8.0
    assert "repair" not in cause
    assert "repair" not in fleets.fleet_document(fit)
    fleets.write_fleet(tmp_path / "fleet.toml", fit)
    assert "the availability of nodes is unknown" in (tmp_path / "fleet.toml").read_text("utf-8")
    assert told["repairs_not_told"] == told["events"]


def test_both_means_are_told_and_add_up(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_text("\n".join(xid_lines(np.random.default_rng(3))) + "\n", "utf-8")
    fit = fleets.fit_fleet(
        read_xid_log([path]), {"gpu": ObservationWindow(START, END, 200 * 8)}, 200
    )
    cause, told = fleets.fleet_document(fit)["cause"][0], fleets.evidence_document(fit)["cause"][0]
    of_all = seconds(told["mean_time_between"])
    # all nodes: every failure over the time of every GPU
    assert of_all == pytest.approx(1600 * (END - START) / told["events"], rel=1e-7)
    assert seconds(told["fleet_mean_time_between"]) == pytest.approx(of_all / 1600, rel=1e-7)
    others = seconds(told["mean_time_between_without_lemons"])
    assert others > of_all
    assert cause["lifetime"]["mean"] == told["mean_time_between_without_lemons"]
    share, factor = cause["lemons"]["share"], cause["lemons"]["factor"]
    assert told["lemon_factor"] == factor
    assert others / (1.0 + share * (factor - 1.0)) == pytest.approx(of_all, rel=1e-6)


def test_lemons_are_judged_by_the_time_they_were_exposed(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_text("\n".join(xid_lines(np.random.default_rng(3))) + "\n", "utf-8")
    watches = {"gpu": ObservationWindow(START, END, 200 * 8)}
    # the others ran jobs for a tenth of the watch: then the four are nothing special
    idle = {f"n{node}": 0.1 * (END - START) for node in range(4, 200)}
    options = fleets.FleetOptions(node_exposure_s=idle)
    fit = fleets.fit_fleet(read_xid_log([path]), watches, 200, options)
    assert fit.causes[0].lemons is not None
    assert fit.causes[0].lemons.flagged == 0


def test_job_and_node_causes_stand_side_by_side(tmp_path: Path) -> None:
    start_s = 1772409600.0  # 2026-03-02T00:00:00Z
    header = "start_s,detected_s,recovered_s,component,cause,kind,job"
    event = f"{start_s + 1},{start_s + 2},{start_s + 3},job,gpu,failure,j"
    jobs = read_history(written(tmp_path / "jobs.csv", header, event))
    runs = read_sacct(
        [
            log(
                tmp_path,
                row("7", "NODE_FAIL", f"{DAY}01:00:00", f"{DAY}02:00:00"),
                row("7", "FAILED", f"{DAY}03:00:00", f"{DAY}04:00:00", submit=f"{DAY}02:00:00"),
            )
        ],
        zone="UTC",
    )
    history = joined([jobs, run_failures(runs)])
    watch = ObservationWindow(start_s, start_s + 24 * HOUR, 2)
    fit = fleets.fit_fleet(history, {"job": watch._replace(units=1), "host": watch}, 2)
    fleet = fleets.fleet_document(fit)
    causes = {cause["name"]: cause for cause in fleet["cause"]}
    assert causes["job_gpu"]["shared"] == 1.0
    assert causes["job_gpu"]["takes"] == "nothing"
    assert "repair" not in causes["job_gpu"]
    assert causes["job_gpu"]["detection"] == {"law": "constant", "value": "1 s"}
    assert causes["host_node_fail"]["per_unit"] == 1.0
    # the job ran again an hour later: that is its time in the queue, and no repair of a node
    assert "repair" not in fleet
    told = {one["name"]: one for one in fleets.evidence_document(fit)["cause"]}
    assert told["host_node_fail"]["repair_taken"] == "none"
    # two runs of an hour on two nodes
    assert told["host_node_fail"]["exposure"] == "14400 s"
    assert any("a recorded unit, used" in remark for remark in told["host_node_fail"]["remarks"])


def many_causes(tmp_path: Path) -> Path:
    """Write one failure each of 30 kinds, and 15 of one more."""
    rows = [f"{START + 600.0 * i},hbm,rare_{i},failure,n{i}" for i in range(30)]
    rows += [f"{START + 1e5 * i},hbm,often,failure,n{i}" for i in range(15)]
    path = tmp_path / "events.csv"
    path.write_text("\n".join(["start_s,component,cause,kind,node", *rows]) + "\n", "utf-8")
    return path


def test_rare_causes_are_taken_together(tmp_path: Path) -> None:
    watch = ObservationWindow(START, END, NODES)
    fit = fleets.fit_fleet(read_history(many_causes(tmp_path)), {"hbm": watch}, NODES)
    causes = fleets.fleet_document(fit)["cause"]
    assert len(causes) == MAX_CAUSES + 1
    assert causes[0]["name"] == "hbm_often"
    assert causes[-1]["name"] == "hbm_others"
    # 31 - 16 causes with a failure each
    exposure_s = NODES * 2000 * HOUR
    assert seconds(causes[-1]["lifetime"]["mean"]) == pytest.approx(exposure_s / 15)
    # all of them: the 45 failures of the log, the one taken for an effect of another left out
    fleet = fleet_of(fleets.fleet_document(fit), "fitted")
    expected = sum(cause_rate_per_s(cause, NODES) for cause in fleet.causes) * 2000 * HOUR
    assert fit.cascades == 1
    assert expected == pytest.approx(45.0 - 1.0, rel=1e-6)
    assert len(fleets.evidence_document(fit)["cause"]) == 31


def test_parts_repaired_as_old_start_at_their_age(tmp_path: Path) -> None:
    history = read_history(health_log(tmp_path))
    new = {f"n{n}/{g}": START - 100 * HOUR for n in range(NODES) for g in range(GPUS)}
    watches = {"gpu": ObservationWindow(START, END, NODES * GPUS, new)}
    options = fleets.FleetOptions(repair="as_old", open_is_down=True)
    cause = fleets.fleet_document(fleets.fit_fleet(history, watches, NODES, options))["cause"][0]
    assert cause["lifetime"]["law"] != "exponential"
    assert (cause["as_old"], cause["ages"], cause["age"]) == (True, "new", f"{2100 * 3600} s")


@pytest.mark.study
@pytest.mark.parametrize("case", ["lemons", "as_old"])
def test_the_simulator_reads_what_is_written(tmp_path: Path, case: str) -> None:
    fleet_file = pytest.importorskip("perfatlas.reliability.fleet.model.fleet_file")
    watch = ObservationWindow(START, END, NODES * GPUS)
    new = {f"n{n}/{g}": START for n in range(NODES) for g in range(GPUS)}
    if case == "lemons":
        log_path = tmp_path / "kern.log"
        log_path.write_text("\n".join(xid_lines(np.random.default_rng(3))) + "\n", "utf-8")
        fit = fleets.fit_fleet(read_xid_log([log_path]), {"gpu": watch._replace(units=1600)}, 200)
    elif case == "many":
        fit = fleets.fit_fleet(read_history(many_causes(tmp_path)), {"hbm": watch}, NODES)
    else:
        options = fleets.FleetOptions(repair="as_old" if case == "as_old" else "as_new")
        history = read_history(health_log(tmp_path))
        fit = fleets.fit_fleet(history, {"gpu": watch._replace(new_s=new)}, NODES, options)
    path = tmp_path / "fleet.toml"
    fleets.write_fleet(path, fit)
    fleet = fleet_file.read_fleet(path)
    assert fleet.units == fit.nodes
    assert [cause.name for cause in fleet.causes][:1] == [fit.causes[0].name]


def test_fewer_nodes_than_the_logs_name_are_refused(tmp_path: Path) -> None:
    history = read_history(health_log(tmp_path))
    watches = {"gpu": ObservationWindow(START, END, NODES * GPUS)}
    assert fleets.fit_fleet(history, watches, NODES).nodes == NODES
    with pytest.raises(InvalidSpecError, match=rf"nodes = {NODES - 1}: .*{NODES} nodes"):
        fleets.fit_fleet(history, watches, NODES - 1)


def test_the_evidence_holds_the_survival_curve(tmp_path: Path) -> None:
    history = read_history(health_log(tmp_path))
    new = {f"n{n}/{g}": START for n in range(NODES) for g in range(GPUS)}
    fit = fleets.fit_fleet(
        history, {"gpu": ObservationWindow(START, END, NODES * GPUS, new)}, NODES
    )
    (told,) = fleets.evidence_document(fit)["cause"]
    curve = told["survival"]
    assert len(curve["age"]) > 4
    for age, share, low, high in zip(*curve.values(), strict=True):
        exact = math.exp(-((seconds(age) / (900 * HOUR)) ** 1.7))  # Weibull(1.7, 900 h)
        assert low <= share <= high
        assert share == pytest.approx(exact, abs=0.08)
