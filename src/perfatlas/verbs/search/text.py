"""The answer of a search as text: the best plans, why, and the frontier as a chart."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import comparison_note, limit_note
from perfatlas.quantities import HOUR_S
from perfatlas.report.text import (
    format_number,
    format_share,
    format_value,
    interval_text,
    limited_text,
    limits_of,
    line_chart,
    print_closing,
    print_line,
    print_plain,
    print_question,
    speaks_unicode,
)
from perfatlas.studies import print_sensitivities, rejected_text
from perfatlas.studies.deployments import (
    DELTA,
    LATENCIES,
    LIMITS,
    LOSS,
    ROLES,
    SIZES,
    crossing_of,
    listed_names,
    percentile_name,
)
from perfatlas.verbs.search.machine import print_machine
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console
    from rich.table import Table


def runner_up_line(plans: Sequence[Mapping[str, Any]], *, several: bool) -> str:
    """Return how far the second plan is behind the first."""
    deficit = plans[0]["runner_up_deficit"]
    if deficit is None:
        return "no other plan meets all limits"
    note = comparison_note(*(plan["tier"] for plan in plans[:2])) if len(plans) > 1 else ""
    beside = f" ({note})" if note else ""
    if deficit == 0:
        return f"the next plan is equal by the objective{beside}"
    mean = " by the geometric mean of the objectives" if several else ""
    return f"the next plan is {format_share(deficit)} worse{mean}{beside}"


def placement_line(plans: Sequence[Mapping[str, Any]]) -> str:
    """Return the nodes of the first plan, and which of the others cross nodes; "" for one node.

    Example:
        >>> from perfatlas.verbs.search.text import placement_line
        >>> first = {"system": "h200_sxm", "tp": 8, "pp": 1, "dp": 2}
        >>> first["placement"] = "2 nodes of 8 GPUs"
        >>> placement_line([first, first | {"pp": 2, "dp": 1}])
        'placement of the first: 2 nodes of 8 GPUs; plan 2 crosses nodes'
    """
    first = str(plans[0]["placement"])
    others = enumerate(plans[1:], start=2)
    crossing = [str(number) for number, plan in others if crossing_of(plan)]
    if first.startswith("1 ") and not crossing:
        return ""
    verb = "plan {} crosses" if len(crossing) == 1 else "plans {} cross"
    also = f"; {verb.format(', '.join(crossing))} nodes" if crossing else ""
    return f"placement of the first: {first}{also}"


def nodes_line(plan: Mapping[str, Any]) -> str:
    """Return the GPUs of the nodes that the first plan occupies, "" if it leaves none idle."""
    whole = plan.get("node_gpus", plan["gpus"])
    if whole == plan["gpus"]:
        return ""
    return (
        f"the first has {plan['gpus']:,} GPUs on nodes of {whole:,}: where nodes are not shared,"
        f" the {whole - plan['gpus']:,} others are idle and cost as much"
    )


def cost_line(plan: Mapping[str, Any]) -> str:
    """Return what the first plan costs, "" without a price."""
    cost = plan.get("usd_per_million_output_tokens")
    if cost is None:
        return ""
    tokens_per_s = plan["output_tokens_per_s_per_gpu"] * plan["gpus"]
    replicas = plan.get("dp", 1)
    serving = replicas / (replicas + plan.get("spare_replicas", 0))
    hourly = cost * serving * tokens_per_s * HOUR_S / MILLION
    return (
        f"cost of the first: ${hourly:,.2f} per hour, ${cost:,.2f} per million"
        " output tokens at the load in the table"
    )


# titles of the chart of a page: of one objective, of several ones
SHORT_NAMES: Final = {"attention_dp": "adp", "moe_tp": "etp"}
METRICS_SHOWN: Final = ("output_tokens_per_s_per_gpu", "ttft_s", "tpot_s")
X: Final = "output_tokens_per_s_per_user"
Y: Final = "output_tokens_per_s_per_gpu"
HEIGHT: Final = 5
TALL: Final = 16
MOST_RULES: Final = 3
MILLION: Final = 1e6
WIDE_COLUMNS: Final = 76
LINE: Final = 2  # objectives whose frontier is a line
WIDTH: Final = 10  # of the column of another objective


def print_search(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write the plans, the frontier and the common end of answers.

    Args:
        verbose: Whether to print a larger chart, all rules and all evidence.
    """
    results = answer["results"]
    if "machine" in results:
        print_machine(console, answer, reproduce=reproduce, verbose=verbose)
        return
    plans = results["plans"]
    engines = {name: plans[0].get(name) for name in (f"{pool}_engine" for pool in ROLES)}
    print_question(console, {**answer, "results": {"gpus": plans[0]["gpus"], **engines}})
    print_plain(console, _plans_table(plans, answer["scenario"], console.width))
    if line := _limits_line(plans):
        print_line(console, line)
    several = len(objectives_of(answer["scenario"])) > 1
    print_line(
        console, f"why the first: {plans[0]['why']}; {runner_up_line(plans, several=several)}"
    )
    if placement := placement_line(plans):
        print_line(console, placement)
    if nodes := nodes_line(plans[0]):
        print_line(console, nodes)
    by_cost = answer["scenario"].get("usd_per_gpu_hour") is not None
    if by_cost and (cost := cost_line(plans[0])):
        print_line(console, cost)
    for note in results["ranking"]:
        print_line(console, note)
    console.print()
    _print_frontier(console, results["frontier"], answer["scenario"], verbose=verbose)
    print_line(console, counts_line(results, verbose=verbose))
    if "explained" in results:
        console.print()
        first = plan_name(plans[0], answer["scenario"])
        print_line(console, f"sensitivities of the first ({first}), by closed forms:")
        print_sensitivities(console, results["explained"], verbose=verbose)
    for command in results.get("launch", ()):
        print_plain(console, f"launch: {command}", wrap=False)
    print_closing(console, answer, reproduce=reproduce, verbose=verbose)


def _print_frontier(
    console: Console,
    points: Sequence[Mapping[str, Any]],
    scenario: Mapping[str, Any],
    *,
    verbose: bool,
) -> None:
    """Write the frontier as a chart, over the first two objectives if there are several."""
    x, y = frontier_axes(scenario)
    known = sorted((p for p in points if p[x] and p[y]), key=lambda point: float(point[x]))
    limit = at_most_text(points)
    best = f"best deployment at each speed{limit}" if x == X else "non-dominated deployments"
    chart = line_chart(
        [(p[x], p[y], "") for p in known],
        titles=(METRICS[x].label, f"{METRICS[y].label}, {best}"),
        width=console.width,
        unicode=speaks_unicode(console),
        height=TALL if verbose else HEIGHT,
        joined=len(objectives_of(scenario)) <= LINE,
    )
    print_plain(console, chart)


def objectives_of(scenario: Mapping[str, Any]) -> list[str]:
    """Return the objectives of a search, one to four."""
    return str(scenario.get("objective") or Y).split(",")


def frontier_axes(scenario: Mapping[str, Any]) -> tuple[str, str]:
    """Return the metrics over which a frontier is drawn, horizontal first.

    Example:
        >>> from perfatlas.verbs.search.text import frontier_axes
        >>> frontier_axes({"objective": "output_tokens_per_s_per_gpu,request_latency_s"})
        ('request_latency_s', 'output_tokens_per_s_per_gpu')
    """
    y, *others = objectives_of(scenario)
    return (others[0], y) if others else (X, Y)


def counts_line(results: Mapping[str, Any], *, verbose: bool = False) -> str:
    """Return the numbers of candidates and of refused combinations, in a line."""
    rate = results.get("candidates_per_cpu_s")
    speed = f" ({format_number(rate)} candidates per CPU-second)" if rate and verbose else ""
    rejected, labels = results["rejected"], METRICS["rejected"].parts
    words = rejected_text(rejected, labels, None if verbose else MOST_RULES)
    refused = f"; {sum(rejected.values()):,} refused: {words}" if words else ""
    return (
        f"{results['candidates']:,} candidates at {results['points']:,} loads"
        f"{speed}, {results['candidates_within_slos']:,} meet all limits{refused}"
    )


def _plans_table(
    plans: Sequence[Mapping[str, Any]], scenario: Mapping[str, Any], width: int
) -> Table:
    """Return the plans as a table: sizes, load, metrics and the probability of all limits."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    pooled = "prefill_workers" in plans[0]
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        **varied_columns(scenario),
        "plan": plan_text,
        **({"GPUs": lambda plan: f"{plan['gpus']:,}"} if scenario.get("max_gpus") else {}),
        **({} if pooled else {"step": _step}),
        **({"load": _load} if not pooled or any("concurrency" in p for p in plans) else {}),
        **_metric_columns(scenario),
        **({"90%": lambda plan: interval_text(plan, Y)} if width >= _wide(scenario) else {}),
        **({"P(SLO)": _probability} if has_limits(scenario) else {}),
        **({"hits": _hits} if "prefix_hit_rate" in plans[0] else {}),
        **(
            {"up": lambda plan: f"{plan['availability']:.3%}"} if "availability" in plans[0] else {}
        ),
    }
    for title in columns:
        left = title in (*VARIED, "plan")
        table.add_column(title, justify="left" if left else "right", header_style="dim")
    for plan in plans:
        table.add_row(*(cell(plan) for cell in columns.values()))
    return table


def has_limits(scenario: Mapping[str, Any]) -> bool:
    """Return whether a search has SLOs or a request rate; without, all plans meet them."""
    return any(scenario.get(name) is not None for name in LIMITS)


def _wide(scenario: Mapping[str, Any]) -> int:
    """Return the width from which the table has room for the interval of the rate."""
    named = [name for name in varied_columns(scenario) if name != "system"]
    return WIDE_COLUMNS + WIDTH * (len(objectives_of(scenario)) - 1 + len(named))


def _metric_columns(scenario: Mapping[str, Any]) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """Return the columns of metrics; latencies with SLOs at their percentile, if one is given."""
    percentile = scenario.get("slo_percentile")
    limited = [name for slo, name in LATENCIES.items() if scenario.get(slo) is not None]
    ranked = [name for name in objectives_of(scenario) if name != "gpus"]
    limited += [DELTA] if scenario.get(LOSS) is not None else []
    shown = METRICS_SHOWN if len(ranked) <= LINE + 1 else METRICS_SHOWN[:1]
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {}
    for name in dict.fromkeys((*shown, *limited, *ranked)):
        if percentile is not None and name in limited and name != DELTA:
            title = f"p{percentile:g}\n{METRICS[name].short_label}"
            columns[title] = partial(marked_metric, percentile_name(name))
        else:
            columns[_title(name)] = partial(marked_metric, name)
    return columns


def _step(plan: Mapping[str, Any]) -> str:
    return f"{plan['max_num_batched_tokens']:,}"


def _probability(plan: Mapping[str, Any]) -> str:
    return format_share(plan["slo_probability"])


def _hits(plan: Mapping[str, Any]) -> str:
    return format_share(plan["prefix_hit_rate"])


def _load(plan: Mapping[str, Any]) -> str:
    load = plan.get("concurrency") or plan.get("batch")
    return f"{load:,}" if load else "-"  # closed forms of pools have no load


def at_most_text(points: Sequence[Mapping[str, Any]]) -> str:
    """Return how many points of a frontier are upper limits of both rates, "" for none.

    Example:
        >>> from perfatlas.verbs.search.text import at_most_text
        >>> rates = {"output_tokens_per_s_per_gpu": 90.0, "output_tokens_per_s_per_user": 9.0}
        >>> at_most_text([{**rates, "tier": "bound"}, {**rates, "tier": "physics"}])
        ', at most for 1 of 2 points'
    """
    limits = [bool(limits_of({Y: point[Y]}, tier=point["tier"])) for point in points]
    if not any(limits):
        return ""
    return ", at most" + ("" if all(limits) else f" for {sum(limits)} of {len(limits)} points")


def _limits_line(plans: Sequence[Mapping[str, Any]]) -> str:
    """Return which systems have limits among predictions, "" if none."""
    if len({limit_note(plan["tier"]) for plan in plans}) == 1:
        return ""
    systems = [_of_pools("system", plan) for plan in plans if limit_note(plan["tier"])]
    return (
        f"≥ at least, ≤ at most: {', '.join(dict.fromkeys(systems))} has no measured kernels and is"
        " at its roofline, in the chart too; the others are predictions"
    )


def _title(name: str) -> str:
    return METRICS[name].short_label.replace("/s/", "/s\n/")


def marked_metric(name: str, plan: Mapping[str, Any]) -> str:
    """Return a metric of a plan; a limit has "≥" or "≤" before it."""
    limit = limits_of({name: plan[name]}, tier=plan["tier"]).get(name, "")
    return limited_text(format_value(name, plan[name]), limit)


def varied_columns(
    scenario: Mapping[str, Any],
) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """Return what several values are searched of beside sizes of a plan: title and cell of a plan.

    Example:
        >>> from perfatlas.verbs.search.text import varied_columns
        >>> list(varied_columns({"systems": ["mi300x"], "formats": ["bf16", "fp8"]}))
        ['system', 'format']
    """
    asked = {"system": "systems", "format": "formats", "KV": "kv_formats"}
    listed = listed_names(scenario.get("choices"))
    named = {"engine": "engine", "exchange": "expert_exchange", "overlap": "batch_overlap"}
    return {
        title: cell
        for title, cell in VARIED.items()
        if (scenario.get(asked[title]) if title in asked else named[title] in listed)
    }


def plan_name(plan: Mapping[str, Any], scenario: Mapping[str, Any]) -> str:
    """Return a plan with its system and formats, of each that a search varies.

    Example:
        >>> from perfatlas.verbs.search.text import plan_name
        >>> plan_name({"system": "mi300x", "tp": 4}, {"systems": ["mi300x"]})
        'mi300x, tp 4'
    """
    cells = [cell(plan) for cell in varied_columns(scenario).values()]
    return ", ".join([*filter(None, cells), plan_text(plan)])


def _of_pools(name: str, plan: Mapping[str, Any]) -> str:
    """Return a setting of a plan, or those of its prefill and decode pools."""
    names = (name, *(f"{role}_{name}" for role in ROLES))
    return " and ".join(dict.fromkeys(str(plan[one]) for one in names if one in plan))


VARIED: Final[dict[str, Callable[[Mapping[str, Any]], str]]] = {
    "system": partial(_of_pools, "system"),
    "engine": partial(_of_pools, "engine"),
    "exchange": lambda plan: str(plan.get("expert_exchange", "")),
    "overlap": lambda plan: str(plan.get("batch_overlap", "")),
    "format": lambda plan: str(plan.get("gemm_format", "")),  # pools may differ
    "KV": lambda plan: str(plan["kv_format"]),
}
"""Cells of what a search may vary, by title."""


def plan_text(plan: Mapping[str, Any]) -> str:
    """Return the sizes of a plan that are not 1, and its draft tokens, in short.

    Example:
        >>> from perfatlas.verbs.search.text import plan_text
        >>> plan_text({"tp": 4, "pp": 1, "dp": 2})
        'tp 4, dp 2'
    """
    if "prefill_workers" in plan:
        return "; ".join([*(_pool_text(role, plan) for role in ROLES), *_common_text(plan)])
    sizes = [
        f"{SHORT_NAMES.get(name, name)} {plan[name]}" for name in SIZES if plan.get(name, 1) != 1
    ]
    if plan.get("spare_replicas"):
        sizes.append(f"{plan['spare_replicas']} spare")
    return ", ".join([*sizes, *_common_text(plan)]) or "tp 1"


def _common_text(plan: Mapping[str, Any]) -> list[str]:
    """Return what a plan has besides sizes, and both of its pools alike."""
    words = []
    if copies := plan.get("redundant_experts"):
        words.append(f"{copies} redundant")
    if drafts := plan.get("speculative_depth"):
        words.append(f"{drafts} drafts")
    if plan.get("prefix_caching") is False:
        words.append("no prefix caching")
    return words


def _pool_text(role: str, plan: Mapping[str, Any]) -> str:
    own = {name: plan.get(f"{role}_{name}", 1) for name in SIZES}
    workers, batch = plan[f"{role}_workers"], plan[f"{role}_batch"]
    own_format = plan.get(f"{role}_gemm_format")
    formatted = f", {own_format}" if own_format else ""
    return f"{workers} {role} of {plan_text(own)}{formatted}, batch {batch}"
