"""An answer for people: the answer first, then what bounds it, how sure it is, and the command."""

from __future__ import annotations

import math
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import counted
from perfatlas.report.text.breakdown import phase_table, phase_title, phases_of
from perfatlas.report.text.closing import print_closing
from perfatlas.report.text.latencies import print_distributions, print_tail
from perfatlas.report.text.memory_bar import memory_bar, memory_verdict
from perfatlas.report.text.quantities import format_number, format_value
from perfatlas.report.text.replica_kinds import kind_name, kinds_of, print_kinds
from perfatlas.report.text.results import print_results
from perfatlas.report.text.rows import label_of
from perfatlas.report.text.terminal import print_line, print_plain, speaks_unicode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import Console

WIDEST_BAR: Final = 100
PLAN: Final = ("tp", "pp", "cp", "attention_dp", "ep", "moe_tp", "dp")
ALWAYS: Final = ("tp", "prefill_workers", "decode_workers")  # told even when they are 1
POOL: Final = ("workers", "batch")
FORMATS: Final = ("format", "gemm_format", "moe_format", "kv_format", "attention_format")
LOAD: Final = ("batch", "concurrency", "prefix")
OBJECTIVES: Final = ("slo_ttft_s", "slo_tpot_s", "slo_itl_s", "slo_request_latency_s")


def print_answer(console: Console, answer: Mapping[str, Any], *, reproduce: str) -> None:
    """Write an answer to a console.

    Args:
        console: From `open_terminal`.
        answer: The `--json` object of a computing verb.
        reproduce: The command line that gives it again.

    Example:
        >>> import sys
        >>> from perfatlas.report.text import open_terminal
        >>> from perfatlas.report.text import print_answer
        >>> answer = {"command": "collective", "scenario": {"op": "all_reduce"},
        ...           "results": {"time_s": 1.2e-5, "time_s_low": 1e-5, "time_s_high": 1.5e-5}}
        >>> print_answer(open_terminal(sys.stdout, width=80), answer, reproduce="perfatlas ...")
        collective: op all_reduce
        <BLANKLINE>
                           90 % interval
          time   12.0 us   10.0 - 15.0 us
        <BLANKLINE>
        reproduce: perfatlas ...
    """
    results = answer.get("results") or {}
    print_line(console, headline(answer), style="bold")
    if detail := subheadline(answer):
        print_line(console, detail)
    console.print()
    print_distributions(console, results)
    if "tail_ttft_s" in results:
        print_tail(console, results)
    print_results(console, results)
    print_kinds(console, results)
    for name, memory in results.items():
        if isinstance(memory, dict) and "capacity_bytes" in memory:
            _print_memory(console, name, memory)
    _print_breakdown(console, answer.get("breakdown") or [])
    print_closing(console, answer, reproduce=reproduce)


def headline(answer: Mapping[str, Any]) -> str:
    """Return what was asked, in a line: the model, the devices, the engine and the mode.

    Args:
        answer: The `--json` object of a computing verb.

    Example:
        >>> from perfatlas.report.text import headline
        >>> headline({"command": "kernel gemm", "scenario": {"system": "h200_sxm", "m": 64}})
        'kernel gemm on h200_sxm: m 64'
    """
    scenario = {k: v for k, v in (answer.get("scenario") or {}).items() if v is not None}
    if "model" not in scenario:
        where = f" on {scenario.pop('system')}" if "system" in scenario else ""
        asked = ", ".join(
            f"{name.replace('_', ' ')} {format_value(name, value)}"
            for name, value in scenario.items()
        )
        return f"{answer.get('command', '')}{where}: {asked}"
    results = answer.get("results") or {}
    gpus = results.get("gpus") or scenario.get("gpus")
    count = f"{gpus:g} x " if gpus else ""
    kinds = [kind_name(kind) for kind in kinds_of(results).values()]
    where = " and ".join(kinds) or f"{count}{_systems(scenario)}"
    words = [f"{scenario['model']} on {where}"]
    versions = (answer.get("evidence") or {}).get("data_versions") or {}
    words.append(str(versions.get("engine") or scenario.get("engine") or ""))
    words.append(_mode(answer))
    return ", ".join(word for word in words if word)


def _mode(answer: Mapping[str, Any]) -> str:
    mode = str((answer.get("scenario") or {}).get("mode") or "")
    method = str((answer.get("results") or {}).get("method") or "")
    return f"{mode} ({method})" if mode and method not in ("", mode) else mode or method


def _systems(scenario: Mapping[str, Any]) -> str:
    default = scenario.get("system", "")
    pools = [scenario.get(f"{pool}_system", default) for pool in ("prefill", "decode")]
    return " and ".join(dict.fromkeys(pool for pool in pools if pool)) or str(default)


def subheadline(answer: Mapping[str, Any]) -> str:
    """Return the plan, the formats and the load of an estimate, in a line.

    Args:
        answer: The `--json` object of a computing verb.

    Example:
        >>> from perfatlas.report.text import subheadline
        >>> subheadline({"scenario": {"model": "m", "tp": 8, "pp": 1, "isl": 2048, "osl": 512}})
        'tp 8, 2,048 tokens in, 512 out'
        >>> subheadline({"scenario": {"model": "m", "request_rate": 4.0, "slo_ttft_s": 0.2}})
        '4 requests/s, TTFT within 200 ms'
    """
    scenario = {k: v for k, v in (answer.get("scenario") or {}).items() if v is not None}
    if "model" not in scenario:
        return ""
    pools = [f"{pool}_{name}" for pool in ("prefill", "decode") for name in (*POOL, *PLAN)]
    words = [
        f"{name.replace('_', ' ')} {format_value(name, scenario[name])}"
        for name in (*PLAN, *pools)
        if name in scenario and (scenario[name] != 1 or name in ALWAYS)
    ]
    words += [f"{n.replace('_format', '')} {scenario[n]}" for n in FORMATS if n in scenario]
    words += [f"{name} {format_value(name, scenario[name])}" for name in LOAD if scenario.get(name)]
    return ", ".join([*words, *_traffic(scenario), *_objectives(scenario)])


def _traffic(scenario: Mapping[str, Any]) -> list[str]:
    """Return what arrives, how often and how long, and how many replicas where that varies."""
    words = []
    if most := scenario.get("max_replicas"):
        words.append(f"{scenario.get('min_replicas', 1):,} to {most:,} replicas")
    if scenario.get("requests"):
        words.append(f"requests of {PurePath(str(scenario['requests'])).name}")
    if (rate := scenario.get("request_rate")) is not None:
        each_s = f"{format_number(float(rate))} requests/s"
        words.append("requests all at once" if float(rate) == math.inf else each_s)
    if "isl" in scenario and "osl" in scenario:
        mean = scenario.get("length_distribution") in ("uniform", "lognormal")
        lengths = f"{counted(scenario['isl'], 'token')} in, {scenario['osl']:,} out"
        words.append(f"{lengths} on average" if mean else lengths)
    if scenario.get("turns", 1) != 1:
        words.append(f"sessions of {scenario['turns']} turns")
    return words


def _objectives(scenario: Mapping[str, Any]) -> list[str]:
    """Return what is asked of latencies; of a search, of which statistic."""
    told = [
        f"{label_of(name.removeprefix('slo_'), short=True)} within"
        f" {format_value(name, float(scenario[name]))}"
        for name in OBJECTIVES
        if name in scenario
    ]
    percentile = scenario.get("slo_percentile")
    if told and percentile is not None:
        told[0] = f"p{percentile:g} of {told[0]}"
    return told


def _print_memory(console: Console, name: str, memory: Mapping[str, Any]) -> None:
    from rich.text import Text

    console.print()
    fits = memory.get("fits") is not False
    title = Text(f"{name.replace('_', ' ')} per GPU: ", style="bold")
    print_plain(console, title.append(memory_verdict(memory), style="" if fits else "bold red"))
    width = min(console.width, WIDEST_BAR)
    print_plain(console, memory_bar(memory, width=width, unicode=speaks_unicode(console)))


def _print_breakdown(console: Console, breakdown: Sequence[Mapping[str, Any]]) -> None:
    if len(breakdown) < 2:
        return  # one operator: the results have said it
    for phase, rows in phases_of(breakdown).items():
        console.print()
        print_line(console, phase_title(phase, rows, width=console.width), style="bold")
        print_plain(console, phase_table(rows, width=console.width))
