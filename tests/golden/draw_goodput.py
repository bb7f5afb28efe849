"""Questions of `goodput` and its sub-verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.golden.draw import LLAMA_70B, Draw, Fields, table_text

if TYPE_CHECKING:
    from tests.golden.question import Question

CREWS: Final = "crews = 3\n"
HEAD: Final = "units = {units}\ngpus_per_unit = 8\n"
REPAIR: Final = """
[[repair]]
name = "swap"
stages = [{ name = "swap", lasts = { law = "exponential", mean = "2 d" } }]
"""
STAGED: Final = """
[[repair]]
name = "steps"
relapse = "2 d"
stages = [
    { name = "reset", lasts = "10 min", fixes = 0.4, false_fix = 0.2 },
    { name = "swap", lasts = { law = "lognormal", median = "4 h", sigma = 1 } },
]
"""
NODE: Final = (
    '[[cause]]\nname = "node"\nper_unit = 1\ndetection = "2 min"\nlifetime = {{ {law} }}\n'
)
SILENT: Final = """
[[cause]]
name = "quiet"
lifetime = { law = "exponential", mean = "300 d" }
per_unit = 1
effect = "corrupts"
lasts = { law = "exponential", mean = "2 h" }
"""
SLOW: Final = """
[[cause]]
name = "slow"
lifetime = { law = "exponential", mean = "90 d" }
per_unit = 1
effect = "slows"
slowdown = 1.2
lasts = { law = "exponential", mean = "1 h" }
"""
LEMONS: Final = """
[[cause]]
name = "bad"
lifetime = { law = "exponential", mean = "200 d" }
per_unit = 1
lemons = { share = 0.05, factor = 30, strikes = 3 }
"""
BURST: Final = """
[[cause]]
name = "power"
lifetime = { law = "exponential", mean = "20 d" }
shared = 1
units = 4
"""
RACKS: Final = """
units = 20
gpus_per_unit = 72
parts_per_unit = 18
parts_needed = 16
[[cause]]
name = "tray"
per_unit = 18
takes = "part"
lifetime = { law = "exponential", mean = "400 d" }
"""
TREE: Final = """
units = 18
gpus_per_unit = 72
unit = "rack"
system = "gb200"
[[component]]
kind = "rack"
[[component]]
kind = "host"
within = "rack"
count = 18
lifetime = { law = "exponential", events = 12, exposure = "3e6 h" }
[[component]]
kind = "gpu"
within = "host"
[[component]]
kind = "nvlink"
within = "gpu"
takes_down = "rack"
lifetime = { law = "exponential", rate = "10 FIT" }
"""
STRATEGIES: Final = """
[[strategy]]
name = "near"
spares = { count = 4, kind = "hot" }
maintenance = { every = "10 d", lasts = "4 h" }
[[strategy.checkpoint]]
name = "peers"
write = "3 s"
survives = "unit"
[[strategy.checkpoint]]
name = "remote"
write_bandwidth = "10 GB/s"
every = 8
[[strategy.restart]]
name = "in-job"
phases = { start = "5 min" }
success = 0.9
[[strategy.restart]]
name = "scheduler"
phases = { start = "15 min" }

[[strategy]]
name = "far"
interval = "40 min"
verify = "20 s"
[[strategy.checkpoint]]
name = "remote"
write_bandwidth = "10 GB/s"
[[strategy.restart]]
name = "scheduler"
phases = { start = { fixed = "5 s", per_rank = "3 ms" } }
"""
LAWS: Final = (
    'law = "exponential", mean = "40 d"',
    'law = "exponential", events = 100, exposure = "4020 d"',
    'law = "weibull", shape = 2, scale = "50 d"',
    'law = "weibull", shape = 0.7, scale = "40 d"',
    'law = "lognormal", median = "30 d", sigma = 1',
    'law = "empirical", values = ["9 d", "40 d", "77 d"]',
)


def goodputs() -> list[Question]:
    """Return the questions of `goodput`."""
    strata = (_methods, _rates, _simulated, _fleets, _laws, _effects, _strategies)
    more = (_what_if, _step, _spares, _tables, _refusals)
    return [question for stratum in (*strata, *more) for question in stratum()]


def fleet_text(*parts: str, units: int = 40) -> str:
    """Return a fleet of causes, repairs and strategies.

    Args:
        parts: Parts of the TOML file.
        units: Nodes of eight GPUs.
    """
    return HEAD.format(units=units) + "".join(parts)


def node_text(law: str) -> str:
    """Return the cause of a whole node.

    Args:
        law: Lifetime distribution.
    """
    return NODE.format(law=law)


def _times(draw: Draw) -> Fields:
    return {"checkpoint_write_s": draw.real(5, 200), "restart_s": draw.real(30, 900)}


def _methods() -> list[Question]:
    draw = Draw("goodput-methods")
    for method in ("auto", "exact", "young", "daly", "saxena", "meta"):
        for known in ({"mtti_s": draw.real(4000, 200000)}, {"node_mtbf_s": 9e6, "gpus": 4096}):
            draw.ask("goodput", {**known, **_times(draw), "method": method})
        severe = {"mtti_s": 900, "checkpoint_interval_s": draw.real(300, 3000), "method": method}
        draw.ask("goodput", {**severe, **_times(draw)})
    return draw.questions


def _rates() -> list[Question]:
    draw = Draw("goodput-rates")
    for rate in ("llama3_node_unexpected", "rsc1_node", "llama3_gpu", "tpu_v4_machine"):
        fields = {"failure_rate": rate, "gpus": draw.power(9, 14), "usd_per_gpu_hour": 2.5}
        draw.ask("goodput", {**fields, **_times(draw), "duration_s": draw.real(1e5, 5e6)})
    seen = {"mtti_s": 28440, "failures_seen": 12, "detection_s": 90, "gpus": 1024}
    draw.ask("goodput", {**seen, **_times(draw)})
    return draw.questions


def _simulated() -> list[Question]:
    draw = Draw("goodput-simulated")
    nodes = {"gpus": 512, "node_mtbf_s": 4e6, "half_width": 0.02, "duration_s": 2e6}
    cases: tuple[Fields, ...] = (
        {"method": "simulate"},
        {"failure_shape": 2},
        {"failure_shape": 0.7},
        {"spares": 1, "repair_s": 86400},
        {"spares": 2, "repair_s": 40000, "seed": 7},
    )
    for case in cases:
        draw.ask("goodput", {**nodes, **_times(draw), **case}, simulator="goodput")
    return draw.questions


def _job(draw: Draw, **more: object) -> Fields:
    fields = {"gpus": 256, "half_width": 0.03, "duration_s": 1e6, "seed": draw.whole(1, 99)}
    return {**fields, **_times(draw), **more}


def _ask(draw: Draw, text: str, fields: Fields) -> None:
    files = {"fleet.toml": text}
    draw.ask("goodput", {"fleet": "fleet.toml", **fields}, files=files, simulator="goodput")


def _fleets() -> list[Question]:
    draw = Draw("goodput-fleets")
    for fleet, gpus in (("llama3", 16384), ("llama3", 2048), ("rsc1", 8192)):
        fields = {"fleet": fleet, **_job(draw), "gpus": gpus, "duration_s": 4e5}
        draw.ask("goodput", fields, simulator="goodput")
    text = fleet_text(node_text(LAWS[0]), REPAIR)
    jobs: tuple[Fields, ...] = (
        {"spares": 3},
        {"spares": 3, "spare_kind": "warm", "spare_start_s": 300},
        {"spares": 2, "spare_kind": "hot", "checkpoint_lag_s": 30},
        {"spares": 0, "fewest_gpus": 128, "replica_gpus": 32},
        {
            "spares": 2,
            "work_s": 8e5,
            "finish_by_s": 1.2e6,
            "usd_per_gpu_hour": 2,
            "duration_s": None,
        },
        {"spares": 2, "mfu": 0.4, "scheduling": 0.9},
        {"fleet_units": 60, "checkpoint_interval_s": 1800},
    )
    for job in jobs:
        _ask(draw, text, _job(draw, **job))
    return draw.questions


def _laws() -> list[Question]:
    draw = Draw("goodput-laws")
    for law in LAWS:
        interval = {"checkpoint_interval_s": draw.real(600, 5000), "spares": 4}
        _ask(draw, fleet_text(node_text(law), REPAIR), _job(draw, **interval))
    mixed = node_text(LAWS[2]) + 'ages = "mixed"\n'
    _ask(draw, fleet_text(mixed, REPAIR), _job(draw, spares=4, checkpoint_interval_s=1500))
    return draw.questions


def _effects() -> list[Question]:
    draw = Draw("goodput-effects")
    interval = {"checkpoint_interval_s": draw.real(600, 5000)}
    node = node_text(LAWS[0])
    for part in (SILENT, SLOW, LEMONS, BURST):
        _ask(draw, fleet_text(node, part, REPAIR), _job(draw, spares=6, **interval))
    _ask(draw, CREWS + fleet_text(node, STAGED), _job(draw, spares=3, **interval))
    _ask(draw, RACKS + REPAIR, _job(draw, spares=2, **interval) | {"gpus": 1152})
    _ask(draw, TREE + REPAIR, _job(draw, spares=2, **interval) | {"gpus": 1152})
    return draw.questions


def _strategies() -> list[Question]:
    draw = Draw("goodput-strategies")
    text = fleet_text(node_text(LAWS[0]), SILENT, REPAIR, STRATEGIES)
    for strategy in (None, "near", "far"):
        fields = {"gpus": 256, "half_width": 0.03, "duration_s": 1e6, "strategy": strategy}
        _ask(draw, text, {**fields, "checkpoint_bytes": 1e12})
    files = {"fleet.toml": fleet_text(node_text(LAWS[1]), REPAIR), "s.toml": STRATEGIES}
    fields = {"fleet": "fleet.toml", "strategy_file": "s.toml", "gpus": 256, "half_width": 0.03}
    bytes_ = {"checkpoint_bytes": 5e11, "duration_s": 1e6}
    draw.ask("goodput", {**fields, **bytes_}, files=files, simulator="goodput")
    return draw.questions


def _what_if() -> list[Question]:
    draw = Draw("goodput-what-if")
    node = node_text(LAWS[0])
    for parts in ((node, REPAIR), (node, SILENT, REPAIR)):
        job = _job(draw, spares=2, what_if=True, more_spares=4, half_width=0.05, duration_s=4e5)
        _ask(draw, fleet_text(*parts), job | {"checkpoint_interval_s": 1500})
    return draw.questions


def _step() -> list[Question]:
    draw = Draw("goodput-step")
    model = {"model": LLAMA_70B, "system": "h100_sxm", "gpus": 2048, "fleet": "llama3"}
    step = {"step_time_s": 6.2, "tokens_per_step": 4_000_000, "restart_s": 300, "half_width": 0.05}
    disk = {"checkpoint_bytes_per_s": 2e11, "duration_s": 4e5}
    draw.ask("goodput", {**model, **step, **disk}, simulator="goodput")
    draw.ask("goodput", {**model, **step, **disk, "format": "fp8"}, simulator="goodput")
    known = {"checkpoint_bytes": 1e12, "checkpoint_bytes_per_s": 1e11, "restart_s": 99}
    draw.ask("goodput", {"mtti_s": 9000, **known})
    return draw.questions


def _spares() -> list[Question]:
    draw = Draw("goodput-spares")
    for case in ({"target": 0.999}, {"spares": 5}, {"spares": 5, "crews": 2}, {"target": 0.99}):
        nodes = {"nodes": draw.power(5, 11), "node_mtbf_s": draw.real(2e6, 2e7), "repair_s": 86400}
        draw.ask("goodput spares", {**nodes, **case})
        draw.ask("goodput spares", {**nodes, **case, "warm": True})
    draw.ask("goodput spares", {"fleet": "llama3", "gpus": 8192, "target": 0.999})
    text = fleet_text(node_text(LAWS[0]), BURST, REPAIR)
    fields = {"fleet": "fleet.toml", "gpus": 256, "spares": 4}
    draw.ask("goodput spares", fields, files={"fleet.toml": text})
    draw.ask("goodput spares", {"nodes": 64})
    return draw.questions


def _tables() -> list[Question]:
    draw = Draw("goodput-table")
    methods = ("auto", "exact", "young", "daly", "saxena", "meta")
    rows: list[Fields] = [
        {"mtti_s": draw.real(4000, 90000), **_times(draw), "method": draw.one(methods)}
        for _ in range(30)
    ]
    rows += [{"mtti_s": -1}, {"gpus": 64}, {"mtti_s": 9, "method": "best"}]
    fields = {"table": "t.csv", "output": "o.csv"}
    draw.ask("goodput", fields, files={"t.csv": table_text(rows)}, tables=["o.csv"])
    drawn: list[Fields] = [
        {"gpus": 512, "node_mtbf_s": draw.real(1e6, 9e6), "failure_shape": shape, **_times(draw)}
        for shape in (0.8, 1, 2)
    ]
    files = {"t.csv": table_text(drawn)}
    loose = {**fields, "half_width": 0.05, "duration_s": 5e5}
    draw.ask("goodput", loose, files=files, tables=["o.csv"], simulator="goodput")
    tables: dict[str, list[Fields]] = {
        "spares": [
            {"nodes": draw.power(4, 12), "node_mtbf_s": 1e7, "repair_s": 9e4, "target": 0.99}
            for _ in range(12)
        ],
    }
    for verb, cells in tables.items():
        files = {"t.csv": table_text(cells)}
        draw.ask(f"goodput {verb}", fields, files=files, tables=["o.csv"])
    return draw.questions


def _refusals() -> list[Question]:
    draw = Draw("goodput-refusal")
    base: Fields = {"checkpoint_write_s": 60, "restart_s": 300}
    refused: tuple[Fields, ...] = (
        base,
        {**base, "mtti_s": 0},
        {**base, "mtti_s": 9000, "fleet": "llama3"},
        {**base, "fleet": "none.toml"},
        {**base, "mtti_s": 9000, "method": "best"},
        {**base, "failure_rate": "none", "gpus": 8},
        {**base, "mtti_s": 9000, "what_if": True},
        {**base, "mtti_s": "soon"},
    )
    for fields in refused:
        draw.ask("goodput", fields)
    broken = {"fleet.toml": "units = 4\n[[cause]]\nname = 'x'\n"}
    draw.ask("goodput", {**base, "fleet": "fleet.toml"}, files=broken)
    return draw.questions
