"""What the second-best plan lacks, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.report.text import format_value

if TYPE_CHECKING:
    from collections.abc import Mapping

LATENCY: Final = "request_latency_s"
OF_LATENCY: Final = {"ttft_s": "TTFT", "tpot_s": "TPOT"}
CLOSE: Final = 1e-9  # relative difference of loads of a GPU that are equal


def runner_up_lacks(
    first: Mapping[str, Any], second: Mapping[str, Any], held: str, objective: str
) -> str:
    """Return why the second plan is worse by the objective, "" where plan and metrics tell it.

    Args:
        first: Row of the best plan.
        second: Row of the next one.
        held: What prevents a higher load of the next one.
        objective: The metric that ranks them, one.

    Example:
        >>> from perfatlas.verbs.search.runner_up import runner_up_lacks
        >>> first = {"gpus": 8, "concurrency": 64, "request_latency_s": 11.1}
        >>> second = {"gpus": 8, "concurrency": 56, "request_latency_s": 11.2}
        >>> rate = "output_tokens_per_s_per_gpu"
        >>> runner_up_lacks(first, second, "the KV cache holds no more requests", rate)
        '56 requests in flight instead of 64, as the KV cache holds no more requests'
        >>> runner_up_lacks(first, {**second, "concurrency": 64}, "", rate)
        'requests take 11.2 s instead of 11.1 s'
        >>> runner_up_lacks(first, {**second, "gpus": 12}, "", "gpus")
        '12 GPUs instead of 8'
    """
    if objective == "gpus":
        more = f"{second['gpus']:,} GPUs instead of {first['gpus']:,}"
        return more if second["gpus"] > first["gpus"] else ""
    if objective == LATENCY:
        longer = [name for name in OF_LATENCY if _is_longer(name, first, second)]
        return " and ".join(
            f"{OF_LATENCY[name]} {_instead(name, first, second)}" for name in longer
        )
    if "decode_workers" in second:
        return held
    loads = [int(row.get("concurrency") or row["batch"] * row["dp"]) for row in (first, second)]
    if loads[1] / second["gpus"] < loads[0] / first["gpus"] * (1.0 - CLOSE):
        on = f" on {second['gpus']:,} GPUs" if second["gpus"] != first["gpus"] else ""
        instead = f" on {first['gpus']:,}" if on else ""
        return f"{loads[1]:,} requests in flight{on} instead of {loads[0]:,}{instead}, as {held}"
    if _is_longer(LATENCY, first, second):
        return f"requests take {_instead(LATENCY, first, second)}"
    return ""


def tied_plans(deficit: float, gain: float) -> str:
    """Return that two plans tie as their best loads are not known exactly, "" if they do not.

    Args:
        deficit: How much worse the second plan is.
        gain: How much worse it is than at the next load that is searched, which misses a limit.

    Example:
        >>> from perfatlas.verbs.search.runner_up import tied_plans
        >>> tied_plans(0.02, 0.09).startswith("the two tie, as its limit lies between two")
        True
        >>> tied_plans(0.1, 0.09)
        ''
    """
    if not 0.0 < deficit < gain:
        return ""
    return "the two tie, as its limit lies between two loads"


def _is_longer(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    """Return whether a latency is longer, as far as its text tells."""
    values = first[name], second[name]
    if None in values:
        return False
    longer: bool = values[1] > values[0]
    return longer and format_value(name, values[1]) != format_value(name, values[0])


def _instead(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    return f"{format_value(name, second[name])} instead of {format_value(name, first[name])}"
