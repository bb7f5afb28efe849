"""The question of an answer in one line, its plan and load, and its command line."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from perfatlas.hardware import slice_chips
from perfatlas.quantities import counted
from perfatlas.report.text.latencies import kind_name, kinds_of
from perfatlas.report.text.quantities import format_number, format_value
from perfatlas.report.text.rows import label_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def reproduce_line(command: str, fields: Mapping[str, object]) -> str:
    """Return the shell command for a question.

    Args:
        command: The verb with its subcommand, such as "kernel gemm".
        fields: Non-default fields by name; None is skipped, a list repeats its flag, and a table
            or list of tables becomes JSON.

    Example:
        >>> from perfatlas.report.text import reproduce_line
        >>> reproduce_line("estimate", {"system": "h200_sxm{device.tdp=500W}", "kv_format": "fp8"})
        "perfatlas estimate --system 'h200_sxm{device.tdp=500W}' --kv-format fp8"
    """
    words = ["perfatlas", *command.split()]
    for name, value in fields.items():
        flag = f"--{name.replace('_', '-')}"
        match value:
            case None:
                continue
            case True:
                words.append(flag)
            case False:
                words.append(f"--no-{flag[2:]}")
            case dict() | [dict(), *_]:
                words += [flag, json.dumps(value)]
            case list() | tuple():
                words += [word for item in value for word in (flag, str(item))]
            case float() if value.is_integer() and abs(value) < 1e15:
                words += [flag, str(int(value))]
            case _:
                words += [flag, str(value)]
    return shlex.join(words)


PLAN: Final = (
    *("tp", "pp", "cp", "ring_degree", "guidance_degree", "dcp"),
    *("attention_dp", "ep", "moe_tp"),
)
POOLS: Final = ("prefill", "decode")
FORMATS: Final = ("gemm_format", "moe_format", "kv_format", "attention_format")
LOAD: Final = ("batch", "prefill_batch", "decode_batch", "concurrency", "prefix")
OMITTED_DEFAULTS: Final = {
    "mask": "causal",
    "direction": "forward",
    "groups": 1,
    "group_sizes": "equal",
    "grouped_kernel": "best_tile",
    "input_distribution": "random",
}
"""Values of operator fields that the question does not repeat."""

OBJECTIVES: Final = ("slo_ttft_s", "slo_tpot_s", "slo_itl_s", "slo_request_latency_s")


def headline(answer: Mapping[str, Any]) -> str:
    """Return the question in one line: model, devices, engine and mode.

    Example:
        >>> from perfatlas.report.text import headline
        >>> headline({"command": "kernel gemm", "scenario": {"system": "h200_sxm", "m": 64}})
        'kernel gemm on h200_sxm: m 64'
        >>> usual = {"m": 64, "groups": 1, "input_distribution": "random"}
        >>> headline({"command": "kernel gemm", "scenario": usual})
        'kernel gemm: m 64'
        >>> searched = {"model": "m", "system": "h200_sxm", "systems": ["mi300x"], "gpus": 2}
        >>> headline({"command": "search", "scenario": searched})
        'm on 2 x h200_sxm or mi300x'
        >>> split = {"model": "m", "system": "gb200", "feed_forward_system": "groq_3_lpu"}
        >>> split |= {"feed_forward_tp": 64, "feed_forward_pp": 2}
        >>> headline({"command": "estimate", "scenario": split, "results": {"gpus": 136}})
        'm on 8 x gb200 and 128 x groq_3_lpu'
    """
    scenario = {k: v for k, v in (answer.get("scenario") or {}).items() if v is not None}
    if "model" not in scenario:
        where = f" on {scenario.pop('system')}" if "system" in scenario else ""
        fields = ", ".join(
            f"{name.removesuffix('_w').replace('_', ' ')} {format_value(name, value)}"
            for name, value in scenario.items()
            if name not in OMITTED_DEFAULTS or value != OMITTED_DEFAULTS[name]
        )
        return f"{answer.get('command', '')}{where}: {fields}"
    results = answer.get("results") or {}
    gpus = results.get("gpus") or scenario.get("gpus")
    of = "chips of" if slice_chips(scenario.get("system")) else "x"
    count = f"{gpus:g} {of} " if gpus else ""
    kinds = [kind_name(kind) for kind in kinds_of(results).values()]
    where = " and ".join(kinds) or _split(scenario, gpus) or f"{count}{_systems(scenario)}"
    words = [f"{scenario['model']} on {where}" if where else str(scenario["model"])]
    words.append(_engine(answer))
    mode = str((answer.get("scenario") or {}).get("mode") or "")
    method = str((answer.get("results") or {}).get("method") or "")
    words.append(f"{mode} ({method})" if mode and method not in ("", mode) else mode or method)
    return ", ".join(word for word in words if word)


def _split(scenario: Mapping[str, Any], gpus: float | None) -> str:
    """Return the devices of attention and of feed-forward networks, "" where one has both."""
    other = scenario.get("feed_forward_system")
    if not other or not gpus:
        return ""
    of_other = scenario.get("feed_forward_tp", 1) * scenario.get("feed_forward_pp", 1)
    of_other *= scenario.get("max_replicas") or 1
    own = " and ".join(
        dict.fromkeys(str(scenario.get(f"{pool}_system") or scenario["system"]) for pool in POOLS)
    )
    return f"{gpus - of_other:g} x {own} and {of_other:g} x {other}"


def _engine(answer: Mapping[str, Any]) -> str:
    """Return the engine of an answer with its release, or those of its two pools."""
    scenario = answer.get("scenario") or {}
    versions = (answer.get("evidence") or {}).get("data_versions") or {}
    usual = versions.get("engine") or scenario.get("engine") or ""
    values = {**scenario, **(answer.get("results") or {})}
    pools = [values.get(f"{pool}_engine") for pool in POOLS]
    if other := scenario.get("feed_forward_engine"):
        pools = [scenario.get("engine"), other]
    if not any(pools):
        return str(usual)
    return " and ".join(
        dict.fromkeys(str(pool or scenario.get("engine") or usual) for pool in pools)
    )


def _systems(scenario: Mapping[str, Any]) -> str:
    default = scenario.get("system", "")
    pools = [scenario.get(f"{pool}_system", default) for pool in ("prefill", "decode")]
    if searched := scenario.get("systems"):
        return " or ".join(dict.fromkeys((str(default), *map(str, searched))))
    pools.append(scenario.get("feed_forward_system"))
    return " and ".join(dict.fromkeys(pool for pool in pools if pool)) or str(default)


def question_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the plan, the formats and the load of an estimate, in lines.

    Example:
        >>> from perfatlas.report.text import question_lines
        >>> question_lines({"scenario": {"model": "m", "tp": 8, "pp": 1, "isl": 2048, "osl": 512}})
        ['plan: tp 8, pp 1', '2,048 tokens in, 512 out']
        >>> question_lines({"scenario": {"model": "m", "request_rate": 4.0, "slo_ttft_s": 0.2}})
        ['4 requests/s, TTFT within 200 ms']
    """
    return [line for line in (*plan_lines(answer), load_line(answer)) if line]


def plan_lines(answer: Mapping[str, Any]) -> list[str]:
    """Return the plan, set or derived: one line, or one per pool or kind.

    Example:
        >>> from perfatlas.report.text.question import plan_lines
        >>> asked = {"model": "m", "system": "h200_sxm", "tp": 8, "pp": 2, "dp": 3}
        >>> plan_lines({"scenario": asked})
        ['plan: tp 8, pp 2, dp 3, 6 nodes crossed by pp']
    """
    scenario = {k: v for k, v in (answer.get("scenario") or {}).items() if v is not None}
    if "model" not in scenario:
        return []
    if kinds := scenario.get("replica_kinds"):
        plans = [_plan({**scenario, **kind}, kind.get("dp", 1)) for kind in kinds]
        return [f"plan of kind {number}: {plan}" for number, plan in enumerate(plans, start=1)]
    if any(f"{pool}_tp" in scenario for pool in POOLS):
        results = answer.get("results") or {}
        numbers = {pool: results.get(f"required_{pool}_workers", 1) for pool in POOLS}
        plans = [_pool_plan(pool, scenario, numbers[pool]) for pool in POOLS]
        return [*plans, *_feed_forward_plan(scenario, "feed-forward of decode")]
    required = (answer.get("results") or {}).get("required_replicas", 1)
    replicas = 1 if scenario.get("max_replicas") else scenario.get("dp", required)
    plan = _plan(scenario, replicas)
    if other := _feed_forward_plan(scenario, "feed-forward"):
        return [f"plan of attention: {plan}", *other]
    return [f"plan: {plan}"] if plan else []


def _feed_forward_plan(scenario: Mapping[str, Any], title: str) -> list[str]:
    """Return engine and plan of the machine of feed-forward networks, if there is one."""
    system = scenario.get("feed_forward_system")
    if system is None:
        return []
    sizes = {n: scenario[f"feed_forward_{n}"] for n in PLAN if f"feed_forward_{n}" in scenario}
    engine = scenario.get("feed_forward_engine")
    return [f"{title}: {engine}, {_plan({**sizes, 'system': system}, 1)}"]


def _pool_plan(pool: str, scenario: Mapping[str, Any], required: int) -> str:
    """Return the plan of the workers of a pool; a search finds their number."""
    sizes = {name: scenario[f"{pool}_{name}"] for name in PLAN if f"{pool}_{name}" in scenario}
    system = scenario.get(f"{pool}_system") or scenario.get("system")
    workers = scenario.get(f"{pool}_workers", required)
    words = [f"{name} {format_value(name, value)}" for name, value in sizes.items()]
    if any(f"{text}_engine" in scenario for text in POOLS):
        words.insert(0, str(scenario.get(f"{pool}_engine") or scenario.get("engine")))
    words.append(counted(workers, "worker"))
    if nodes := _nodes({**sizes, "system": system}, workers):
        words.append(nodes)
    return f"{pool}: {', '.join(words)}"


def _plan(scenario: Mapping[str, Any], replicas: int) -> str:
    """Return the sizes of a plan and its nodes, "" if no size is stated."""
    words = [f"{name} {format_value(name, scenario[name])}" for name in PLAN if name in scenario]
    if "dp" in scenario:
        words.append(f"dp {format_value('dp', scenario['dp'])}")
    nodes = _nodes(scenario, replicas) if words else ""
    return ", ".join([*words, nodes] if nodes else words)


def _nodes(scenario: Mapping[str, Any], replicas: int) -> str:
    """Return how many nodes, or scale-up domains larger than nodes, replicas are spread over.

    Replicas start on separate nodes unless several fit on one, as in the pricing of collectives.
    """
    if not scenario.get("system") or "tp" not in scenario:
        return ""
    from perfatlas.hardware import resolve_system
    from perfatlas.parallelism import crossing_groups, gpus_of_sizes, node_gpus

    system = resolve_system(str(scenario["system"]))
    size = int(node_gpus(system))
    gpus = int(gpus_of_sizes(scenario))
    nodes = replicas * -(-gpus // size) if gpus > size else -(-replicas // (size // gpus))
    crossing = ", ".join(crossing_groups({n: scenario.get(n, 1) for n in PLAN}, size))
    across = f" crossed by {crossing}" if crossing else ""
    return counted(int(nodes), "node" if size == system.node.devices else "domain") + across


def load_line(answer: Mapping[str, Any]) -> str:
    """Return the formats, the load and the objectives of an estimate or a simulation, in a line."""
    scenario = {k: v for k, v in (answer.get("scenario") or {}).items() if v is not None}
    if "model" not in scenario:
        return ""
    words = _formats(scenario)
    if "benchmark" in scenario:
        by = scenario.get("quantization_method")
        words.append(f"{scenario['benchmark']}{f' after {by}' if by else ''}")
    words += [
        f"{name.replace('_', ' ')} {format_value(name, scenario[name])}"
        for name in LOAD
        if scenario.get(name) and (name, scenario[name]) != ("prefill_batch", 1)
    ]
    results = answer.get("results") or {}
    scenario = {"sessions": results.get("max_sessions"), **scenario}
    traffic = _traffic(scenario, int(results.get("image_tokens") or 0))
    return ", ".join([*words, *traffic, *objective_texts(scenario), *_clock(scenario)])


def _clock(scenario: Mapping[str, Any]) -> list[str]:
    """Return the limits under which the GPUs do not run at their sustained clock."""
    words = []
    if (limit_w := scenario.get("power_cap_w")) is not None:
        words.append(f"power limit {format_value('power_w', limit_w)} per GPU")
    if scenario.get("clock_ratio", 1.0) != 1.0:
        words.append(f"clock ratio {format_number(float(scenario['clock_ratio']))}")
    if scenario.get("input_distribution", "random") != "random":
        words.append(f"tensors of {scenario['input_distribution']}")
    return words


def _formats(scenario: Mapping[str, Any]) -> list[str]:
    """Return the number formats; roles with equal formats are grouped."""
    roles: dict[str, list[str]] = {}
    for name in FORMATS:
        if name in scenario:
            roles.setdefault(str(scenario[name]), []).append(name.removesuffix("_format"))
    if not roles:
        return [f"format {scenario['format']}"] if "format" in scenario else []
    pool_formats = [(pool, scenario.get(f"{pool}_format")) for pool in POOLS]
    return [
        *(f"{pool} {number}" for pool, number in pool_formats if number is not None),
        *(f"{'/'.join(names)} {number}" for number, names in roles.items()),
    ]


def _traffic(scenario: Mapping[str, Any], of_images: int) -> list[str]:
    """Return requests, rate and lengths, and the number of replicas if it varies."""
    words = []
    if most := scenario.get("max_replicas"):
        words.append(f"{scenario.get('min_replicas', 1):,} to {most:,} replicas")
    words += [
        f"{name.split('_')[0]} of {PurePath(str(scenario[name])).name}"
        for name in ("requests", "lengths_from")
        if scenario.get(name)
    ]
    if mix := scenario.get("request_mix"):
        words.append(f"requests of {', '.join(mix)}")
    if (rate := scenario.get("request_rate")) is not None:
        each_s = f"{format_number(float(rate))} requests/s"
        words.append("requests all at once" if float(rate) == math.inf else each_s)
    if "isl" in scenario and "osl" in scenario:
        mean = scenario.get("length_distribution") in ("uniform", "lognormal")
        lengths = f"{_prompt(scenario, of_images)}, {scenario['osl']:,} out"
        words.append(f"{lengths} on average" if mean else lengths)
    elif "osl" in scenario:
        words.append(f"{counted(scenario['osl'], 'token')} generated of each")
    if rounds := scenario.get("requests_per_client"):
        words.append(f"{counted(rounds, 'request')} per client, all starting together")
    if spread := scenario.get("osl_spread"):
        words.append(f"outputs within {format_number(100.0 * spread)}% of their mean")
    if shared := scenario.get("shared_prefix"):
        words.append(f"shared prefix of {counted(shared, 'token')}")
    turns = f" of {scenario['turns']} turns" if scenario.get("turns", 1) != 1 else ""
    if live := scenario.get("sessions"):
        words.append(f"{counted(live, 'session')}{turns} live")
        default = "middle" if scenario.get("requests") else "beginning"
        if scenario.get("session_start", default) == "middle":
            words[-1] += " (those at the start begin midway with cold caches, untimed)"
    elif turns:
        words.append(f"sessions{turns}")
    return words


def _prompt(scenario: Mapping[str, Any], of_images: int) -> str:
    """Return the tokens of a prompt, those of text and of images."""
    text = f"{counted(scenario['isl'], 'token')} in"
    if not of_images:
        return text
    pictures, each = counted(scenario["images"], "image"), of_images // scenario["images"]
    whole = scenario["isl"] + of_images
    return f"{whole:,} tokens in ({scenario['isl']:,} and {pictures} of {each:,})"


def objective_texts(scenario: Mapping[str, Any]) -> list[str]:
    """Return the SLOs; for a search, with their statistic."""
    objectives = [
        f"{label_of(name.removeprefix('slo_'), short=True)} within"
        f" {format_value(name, float(scenario[name]))}"
        for name in OBJECTIVES
        if name in scenario
    ]
    percentile = scenario.get("slo_percentile")
    if objectives and percentile is not None:
        objectives[0] = f"p{percentile:g} of {objectives[0]}"
    return objectives
