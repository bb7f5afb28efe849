"""Questions of `fleet`: schedules of many jobs; histories read from logs, fitted, explained."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING, Final

from tests.golden.draw import Draw, Fields, flags, table_text
from tests.golden.draw_goodput import BURST, LAWS, REPAIR, fleet_text, node_text
from tests.golden.question import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.golden.question import Question

TRACES: Final = FOLDER.parent / "reliability" / "jobs" / "traces"
START: Final = datetime(2026, 3, 1, tzinfo=UTC)
WATCH: Final[Fields] = {"start": "2026-03-01T00:00:00Z", "end": "2026-04-01T00:00:00Z"}
EPOCH: Final = 1772413200
SACCT: Final = """\
JobID|State|Submit|Start|End|ElapsedRaw|AllocTRES|NodeList|ExitCode
7|NODE_FAIL|{d}T00:00:00|{d}T00:10:00|{d}T01:10:00|3600|gres/gpu=16|n[1-2]|0:0
7|COMPLETED|{d}T01:10:00|{d}T01:20:00|{d}T02:20:00|3600|gres/gpu=16|n[1-2]|0:0
8|COMPLETED|{d}T01:00:00|{d}T01:00:00|{d}T02:00:00|3600|cpu=1|n3|0:0
10|COMPLETED|{d}T02:00:00|{d}T02:00:00|{d}T02:30:00|1800|gres/gpu=4|n3|0:0
11|FAILED|{d}T02:00:00|{d}T02:10:00|{d}T05:30:00|12000|gres/gpu=8|n1|1:0
""".format(d="2026-03-02")
RESPONSES: Final = ("slurm_requeue", "slurm_no_kill", "drain", "jobset", "kueue", "torchrun")


def fleets() -> list[Question]:
    """Return the questions of `fleet`."""
    strata = (_policies, _failing, _placing, _job_files, _compared, _schedule_tables)
    more = (_schedule_refusals, _imported, _fitted, _lifetimes, _reported)
    return [question for stratum in (*strata, *more) for question in stratum()]


def _jobs(draw: Draw) -> Fields:
    return {
        "num_jobs": draw.whole(100, 400),
        "load": draw.real(0.6, 1.4),
        "nodes": draw.power(3, 6),
        "seed": draw.whole(1, 99),
    }


def _ask(draw: Draw, *parts: Mapping[str, object], files: dict[str, str] | None = None) -> None:
    fields = {name: value for part in parts for name, value in part.items()}
    draw.ask("fleet schedule", fields, simulator="schedule", files=files)


def _policies() -> list[Question]:
    draw = Draw("schedule-policies")
    for order, backfill in product(
        ("fifo", "priority", "fair_share"), ("none", "easy", "conservative")
    ):
        chosen: Fields = {"order": order, "backfill": backfill}
        if backfill == "conservative":
            chosen["depth"] = 20
        if order == "fair_share":
            chosen["half_life_s"] = 86400
        _ask(draw, _jobs(draw), chosen)
    return draw.questions


def _failing() -> list[Question]:
    draw = Draw("schedule-failing")
    fails: Fields = {"node_mtbf_s": 200000, "repair_s": 7200}
    for response in RESPONSES:
        kept: Fields = {
            "checkpoint_interval_s": draw.one((600, 3600)),
            "restart_s": draw.real(30, 400),
        }
        if response == "drain":
            kept = {}
        _ask(draw, _jobs(draw), fails, kept, {"response": response})
    _ask(draw, _jobs(draw), fails, {"response": "torchrun", "patience_s": 60, "fewest_share": 0.5})
    _ask(draw, _jobs(draw), fails, {"max_restarts": 1, "detection_s": 30, "keeps_place": True})
    _ask(draw, _jobs(draw), {"fleet": "rsc1", "nodes": 64})
    text = fleet_text(node_text(LAWS[2]), BURST, REPAIR, units=32)
    _ask(draw, _jobs(draw) | {"nodes": 32}, {"fleet": "f.toml"}, files={"f.toml": text})
    rows = "time_s,node,repair_s,width,drain\n900,1,5000,,\n1200,0,600,,true\n9000,2,,2,\n"
    _ask(draw, _jobs(draw), {"failures": "f.csv"}, files={"f.csv": rows})
    return draw.questions


def _placing() -> list[Question]:
    draw = Draw("schedule-placing")
    for placement, together in product(("pack", "best_fit"), ("domain", "leaf")):
        chosen = {"placement": placement, "together": together, "required": draw.one((True, False))}
        _ask(draw, _jobs(draw) | {"nodes": 32}, chosen, {f"nodes_per_{together}": 8})
    shape = {"run_median_s": 600, "run_sigma": 1, "max_job_gpus": 32, "limit_factor": 3}
    _ask(draw, _jobs(draw), shape, {"gpus_per_node": 4})
    rate = {"load": None, "job_rate": 0.01, "until_s": 30000}
    _ask(draw, _jobs(draw) | rate)
    return draw.questions


def _own_jobs(draw: Draw) -> str:
    rows = [
        {
            "submit_s": 60 * n,
            "run_s": draw.whole(50, 9000),
            "gpus": draw.power(0, 5),
            "priority": draw.whole(1, 4),
            "user": draw.one(("ann", "bob", "cy")),
            "checkpoint_interval_s": draw.one(("", 600)),
            "requeue": draw.one(("true", "false")),
        }
        for n in range(60)
    ]
    return table_text(rows)


def _job_files() -> list[Question]:
    draw = Draw("schedule-files")
    for preemption in ("none", "requeue", "cancel"):
        fields = {"jobs": "j.csv", "nodes": 6, "order": "priority", "preemption": preemption}
        output = f"o{draw.one(('.csv', '.jsonl', '.parquet'))}"
        files = {"j.csv": _own_jobs(draw)}
        draw.ask(
            "fleet schedule",
            {**fields, "per_job": output},
            simulator="schedule",
            files=files,
            tables=[output],
        )
    shares = {"jobs": "j.csv", "nodes": 6, "order": "fair_share", "shares": "ann=2,bob=1,cy=1"}
    _ask(draw, shares, files={"j.csv": _own_jobs(draw)})
    traces = {
        "helios": "helios.csv",
        "acme": "acme_kalos.csv",
        "alibaba_gpu_v2020": "alibaba_tasks.csv",
    }
    for name, path in traces.items():
        text = (TRACES / path).read_text("utf-8")
        _ask(draw, {"jobs": path, "job_format": name, "nodes": 16}, files={path: text})
    sacct = {"jobs": "s.txt", "job_format": "sacct", "zone": "UTC", "nodes": 4}
    _ask(draw, sacct, files={"s.txt": SACCT})
    scenario = 'num_jobs = 99\nload = 0.9\nnodes = 8\norder = "fair_share"\nseed = 5\n'
    _ask(draw, {"scenario": "s.toml", "backfill": "none"}, files={"s.toml": scenario})
    return draw.questions


def _compared() -> list[Question]:
    draw = Draw("schedule-compared")
    fails: Fields = {"node_mtbf_s": 200000, "repair_s": 7200}
    sides = (
        ["backfill=none,easy"],
        ["order=fifo,fair_share", "backfill=none,easy"],
        ["seed=0,1,2"],
        [f"response={','.join(RESPONSES)}"],
    )
    for compared in sides:
        _ask(draw, _jobs(draw), fails, {"compare": compared})
    return draw.questions


def _schedule_tables() -> list[Question]:
    draw = Draw("schedule-table")
    rows = [_jobs(draw) | {"backfill": draw.one(("none", "easy", "esy"))} for _ in range(8)]
    fields = {"table": "t.csv", "output": "o.csv"}
    files = {"t.csv": table_text(rows)}
    draw.ask("fleet schedule", fields, simulator="schedule", files=files, tables=["o.csv"])
    return draw.questions


def _schedule_refusals() -> list[Question]:
    draw = Draw("schedule-refusal")
    base: Fields = {"num_jobs": 9, "load": 1, "nodes": 4}
    refused: tuple[Fields, ...] = (
        {},
        {**base, "load": -1},
        {**base, "depth": 4, "backfill": "none"},
        {**base, "response": "jobset"},
        {**base, "jobs": "none.csv"},
        {"jobs": "none.csv", "nodes": 1},
    )
    for fields in refused:
        draw.ask("fleet schedule", fields)
    return draw.questions


def _xid_log(draw: Draw) -> str:
    """Return a kernel log with a lemon node."""
    seconds = sorted(draw.random.sample(range(30 * 86_400), 60))
    lines = []
    for second in seconds:
        stamp = (START + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%SZ")
        node = f"n{draw.one([7] * 12 + list(range(40))):03d}"
        code = draw.one((79, 79, 48, 94, 31))
        lines.append(f"{stamp} {node} kernel: NVRM: Xid (PCI:0000:61:00): {code}, text of it")
        if draw.one((True, False)):
            lines += [lines[-1], f"{stamp} {node} kernel: usb 1-1: new device"]
    return "\n".join(lines) + "\n"


def _logs(draw: Draw) -> dict[str, tuple[str, str, Fields]]:
    """Return format -> name, text and flags of a log."""
    health = [
        {"checkName": "SysLogsXIDError", "componentClass": "GPU", "nodeName": f"g{n % 3}"}
        | {"generatedTimestamp": f"2026-03-02T01:{n:02}:00Z", "isFatal": n % 2 == 0}
        | {"isHealthy": n % 5 == 4, "errorCode": [str(draw.one((79, 48)))], "agent": "syslog"}
        for n in range(20)
    ]
    acts = (
        *("start", "checkpoint_start", "checkpoint_end", "interrupt"),
        *("detected", "nodes_ready", "running", "end"),
    )
    job = [
        {"time": EPOCH + 100 * n, "job": "j", "event": act, "cause": "gpu"}
        for n, act in enumerate(acts)
    ]
    steps = [
        {"job_name": "j", "step_count": n % 12, "step_start_time": EPOCH + 10 * n}
        for n in range(20)
    ]
    goodput = [{"job_name": "j", "job_start_time": EPOCH - 9}, *steps[:12]]
    goodput += [{"job_name": "j", "job_start_time": EPOCH + 115}, *steps[12:]]
    scrape = 'DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-0",Hostname="n7"} '
    return {
        "xid": ("kern.log", _xid_log(draw), {}),
        "sacct": ("sacct.txt", SACCT, {"zone": "UTC"}),
        "nvsentinel": ("events.jsonl", _lines(health), {}),
        "jobs": ("job.jsonl", _lines(job), {}),
        "ml_goodput": ("goodput.jsonl", _lines(goodput), {}),
        "dcgm": ("a.prom", f"{scrape}0\n", {"scraped": ["2026-03-02T01:00:00Z"]}),
        "table": ("history.csv", _history(draw), {}),
    }


def _lines(rows: Sequence[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _history(draw: Draw) -> str:
    rows = [
        {"start_s": f"2026-03-{1 + n % 30:02}T{n % 24:02}:00:00Z", "component": "host"}
        | {"cause": draw.one(("psu", "fan")), "kind": "failure", "node": f"n{draw.whole(1, 30)}"}
        for n in range(50)
    ]
    return table_text(sorted(rows, key=lambda row: str(row["start_s"])))


def _imported() -> list[Question]:
    draw = Draw("fleet-import")
    for name, (path, text, more) in _logs(draw).items():
        fields = {"format": name, "output": "h.csv", **more}
        draw.ask(f"fleet import {path}", fields, files={path: text}, tables=["h.csv"])
    draw.ask("fleet import x.log", {"format": "xid"})
    draw.ask("fleet import none.log", {"format": "xid", "output": "h.csv"})
    return draw.questions


def _words(verb: str, **fields: object) -> list[str]:
    return [*verb.split(), *flags(fields), "--json"]


def _fitted() -> list[Question]:
    draw = Draw("fleet-fit")
    job = {"checkpoint_write_s": 10, "restart_s": 60, "half_width": 0.05, "duration_s": 4e5}
    for index in range(4):
        fit: Fields = {"nodes": 64, **WATCH, "output": "f.toml"}
        fit |= {"repaired": "as_old"} if index == 1 else {}
        commands = [
            _words("fleet import kern.log", format="xid", output="h.parquet"),
            _words("fleet fit h.parquet", **fit),
        ]
        if index == 2:
            commands.append(_words("goodput", fleet="f.toml", **job))
        if index == 3:
            commands.append(_words("fleet schedule", fleet="f.toml", num_jobs=60, load=0.8))
        simulator = ("", "", "goodput", "schedule")[index]
        draw.add(commands, files={"kern.log": _xid_log(draw)}, simulator=simulator)
    for more in ({"cascade_s": 5}, {"kinds": ["failure", "unclear"]}, {"open_is_down": True}):
        fit = {"nodes": 40, **WATCH, "output": "f.toml", **more}
        draw.ask("fleet fit h.csv", fit, files={"h.csv": _history(draw)})
    draw.ask("fleet fit h.csv", {"nodes": 2, **WATCH}, files={"h.csv": _history(draw)})
    draw.ask("fleet fit none.csv", {})
    return draw.questions


def _lifetimes() -> list[Question]:
    draw = Draw("fleet-lifetimes")
    for law in (None, "weibull", "lognormal", "exponential"):
        rows = [
            {"years": draw.real(0.2, 9), "dead": draw.one(("TRUE", "FALSE")), "batch": "old"}
            for _ in range(60)
        ]
        asked = {"lifetimes": "u.csv", "age": "years", "failed": "dead", "time_unit": "y"}
        fleet = {"output": "f.toml", "component": "gpu", "nodes": 64, "repair_s": 14400}
        more: Fields = {"law": law, "survival_at": [1, 3], "where": "batch=old"}
        files = {"u.csv": table_text(rows)}
        draw.ask("fleet fit", {**asked, **more, **(fleet if law else {})}, files=files)
    return draw.questions


def _reported() -> list[Question]:
    draw = Draw("fleet-report")
    for name in ("llama3", "rsc1"):
        draw.ask(f"fleet report {name}", {})
    text = fleet_text(node_text(LAWS[1]), BURST, REPAIR)
    draw.ask("fleet report f.toml", {"output": "p.html"}, files={"f.toml": text})
    draw.ask("fleet report h.csv", {}, files={"h.csv": _history(draw)})
    draw.ask("fleet report none.toml", {})
    return draw.questions
