"""The answer of a search as text: the best plans, why, and the frontier as a chart."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas import quantities
from perfatlas.answer import comparison_note, limit_note
from perfatlas.inference import ITEM_NAMES
from perfatlas.networks import is_graph
from perfatlas.report.text import (
    format_number,
    format_share,
    format_value,
    interval_text,
    limited_text,
    limits_of,
    line_chart,
    print_cells,
    print_closing,
    print_line,
    print_plain,
    print_question,
    speaks_unicode,
)
from perfatlas.scenario.deployments import evaluate_one
from perfatlas.scenario.resolution import read_scenario
from perfatlas.studies import print_sensitivities, rejected_text
from perfatlas.studies.deployments import (
    AVAILABILITY,
    DELTA,
    EXCHANGE,
    HIGHER,
    LATENCIES,
    LIMITS,
    LOSS,
    NO_GAIN,
    RATE,
    ROLES,
    SIZES,
    combinations_of,
    crossing_of,
    listed_names,
    percentile_name,
    plan_row,
    ranked,
    ranking_error,
)
from perfatlas.verbs.search.machine import print_machine
from perfatlas.verbs.search.metrics import RESULTS
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import Console

    from perfatlas.studies.deployments import Found, Leader, SearchInputs


def first_line(plans: Sequence[Mapping[str, Any]], objectives: Sequence[str]) -> str:
    """Return why the first plan is first, and how far the second is behind it."""
    name, deficit = objectives[0], plans[0]["runner_up_deficit"]
    known = [plan[name] for plan in plans if plan.get(name) is not None]
    which, best = ("highest", max) if METRICS[name].better == "higher" else ("lowest", min)
    why, mean = "it ranks first by closed forms", ""
    if len(objectives) > 1:
        why, mean = "it is the best compromise", " by the geometric mean of the objectives"
    elif known and plans[0].get(name) == best(known):
        why = f"it has the {which} {METRICS[name].short_label} of the plans that meet all limits"
    if tied := sum(bool(plan.get("ties")) for plan in plans):
        error = format_share(ranking_error())
        which = f"the first {tied}" if tied > 1 else "several plans"
        return (
            f"it is the simplest of {which}, equal within {error}, the error with which plans are"
            " ranked"
        )
    if deficit is None:
        return f"{why}; no other plan meets all limits"
    note = comparison_note(*(plan["tier"] for plan in plans[:2])) if len(plans) > 1 else ""
    behind = f"{format_share(deficit)} worse{mean}" if deficit else "equal by the objective"
    return f"{why}; the next plan is {behind}" + (f" ({note})" if note else "")


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
    rate = rate_name(plan)
    name = "usd_per_million_output_tokens" if rate == Y else "usd_per_million_items"
    cost = plan.get(name)
    if cost is None:
        return ""
    units_per_s = plan[rate] * plan["gpus"]
    replicas = plan.get("dp", 1)
    serving = replicas / (replicas + plan.get("spare_replicas", 0))
    hourly = cost * serving * units_per_s * quantities.HOUR_S / MILLION
    return (
        f"cost of the first: ${hourly:,.2f} per hour, ${cost:,.2f} per million"
        f" {'output tokens' if rate == Y else 'items'} at the load in the table"
    )


def rate_name(plan: Mapping[str, Any]) -> str:
    """Return the name of the throughput of a plan: of output tokens, or of items."""
    return Y if Y in plan else ITEMS[0]


# titles of the chart of a page: of one objective, of several ones
SHORT_NAMES: Final = {"attention_dp": "adp", "moe_tp": "etp"}
TOKENS: Final = "max_num_batched_tokens"
METRICS_SHOWN: Final = ("output_tokens_per_s_per_gpu", "ttft_s", "tpot_s")
ITEMS: Final = ("throughput_per_s_per_gpu", "request_latency_s")  # of graphs of operators
X: Final = "output_tokens_per_s_per_user"
Y: Final = "output_tokens_per_s_per_gpu"
HEIGHT: Final = 5
VERBOSE_HEIGHT: Final = 16
MAX_RULES: Final = 3
MILLION: Final = 1e6
WIDE_COLUMNS: Final = 76
LINE: Final = 2  # objectives whose frontier is a line
WIDTH: Final = 10  # of the column of another objective


def print_search(
    console: Console, answer: Mapping[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    """Write the plans, the frontier and the common end of answers."""
    results = answer["results"]
    if "machine" in results:
        print_machine(console, answer, reproduce=reproduce, verbose=verbose)
        return
    plans = results["plans"]
    engines = {name: plans[0].get(name) for name in (f"{pool}_engine" for pool in ROLES)}
    asked = {**results, "gpus": plans[0]["gpus"], **engines}
    print_question(console, {**answer, "results": asked})
    columns = plan_columns(plans, answer["scenario"], console.width)
    print_cells(console, plans, columns, (*VARIED, "plan"))
    if line := _limits_line(plans):
        print_line(console, line)
    print_line(console, f"why the first: {first_line(plans, objectives_of(answer['scenario']))}")
    print_line(console, f"why not a higher load: {plans[0]['why']}")
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
        height=VERBOSE_HEIGHT if verbose else HEIGHT,
        joined=len(objectives_of(scenario)) <= LINE,
    )
    print_plain(console, chart)


def objectives_of(scenario: Mapping[str, Any]) -> list[str]:
    """Return the objectives of a search, one to four."""
    default = ITEMS[0] if is_graph(scenario.get("model")) else Y
    return str(scenario.get("objective") or default).split(",")


def frontier_axes(scenario: Mapping[str, Any]) -> tuple[str, str]:
    """Return the metrics over which a frontier is drawn, horizontal first.

    Example:
        >>> from perfatlas.verbs.search.text import frontier_axes
        >>> frontier_axes({"objective": "output_tokens_per_s_per_gpu,request_latency_s"})
        ('request_latency_s', 'output_tokens_per_s_per_gpu')
    """
    y, *others = objectives_of(scenario)
    if not others and is_graph(scenario.get("model")):
        return ITEMS[1], ITEMS[0]
    return (others[0], y) if others else (X, Y)


def counts_line(results: Mapping[str, Any], *, verbose: bool = False) -> str:
    """Return the numbers of candidates and of refused combinations, in a line."""
    rate = results.get("candidates_per_cpu_s")
    speed = f" ({format_number(rate)} candidates per CPU-second)" if rate else ""
    rejected, labels = results["rejected"], METRICS["rejected"].parts
    words = rejected_text(rejected, labels, None if verbose else MAX_RULES)
    refused = f"; {sum(rejected.values()):,} refused: {words}" if words else ""
    return (
        f"{results['candidates']:,} candidates at {results['points']:,} loads"
        f"{speed}, {results['candidates_within_slos']:,} meet all limits{refused}"
    )


def plan_columns(
    plans: Sequence[Mapping[str, Any]], scenario: Mapping[str, Any], width: int | None = None
) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """Return the columns of a table of plans: sizes, load, metrics and probability of all limits.

    Args:
        plans: The plans, or points of the frontier.
        width: Columns of the terminal; None for a page.
    """
    pooled = "prefill_workers" in plans[0]
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {
        **varied_columns(scenario),
        "plan": plan_text,
        **({"GPUs": lambda plan: f"{plan['gpus']:,}"} if scenario.get("max_gpus") else {}),
        **({"step": lambda plan: f"{plan[TOKENS]:,}"} if TOKENS in plans[0] else {}),
        **({"load": _load} if not pooled or any("concurrency" in p for p in plans) else {}),
        **_metric_columns(scenario, plans),
    }
    if width is None or width >= _wide(scenario):
        columns["90%"] = lambda plan: interval_text(plan, rate_name(plan))
    if has_limits(scenario):
        columns["P(SLO)"] = lambda plan: format_share(plan["slo_probability"])
    if "prefix_hit_rate" in plans[0]:
        columns["hits"] = lambda plan: format_share(plan["prefix_hit_rate"])
    if "availability" in plans[0]:
        columns["up"] = lambda plan: f"{plan['availability']:.3%}"
    return columns


def has_limits(scenario: Mapping[str, Any]) -> bool:
    """Return whether a search has SLOs or a request rate; without, all plans meet them."""
    return any(scenario.get(name) is not None for name in LIMITS)


def _wide(scenario: Mapping[str, Any]) -> int:
    """Return the width from which the table has room for the interval of the rate."""
    named = [name for name in varied_columns(scenario) if name != "system"]
    return WIDE_COLUMNS + WIDTH * (len(objectives_of(scenario)) - 1 + len(named))


def _metric_columns(
    scenario: Mapping[str, Any], plans: Sequence[Mapping[str, Any]]
) -> dict[str, Callable[[Mapping[str, Any]], str]]:
    """Return the columns of metrics; latencies with SLOs at their percentile, if it is known."""
    percentile = scenario.get("slo_percentile")
    limited = [name for slo, name in LATENCIES.items() if scenario.get(slo) is not None]
    ranked = [name for name in objectives_of(scenario) if name != "gpus"]
    limited += [DELTA] if scenario.get(LOSS) is not None else []
    shown: Sequence[str] = ITEMS if is_graph(scenario.get("model")) else METRICS_SHOWN
    shown = shown if len(ranked) <= LINE + 1 else shown[:1]
    columns: dict[str, Callable[[Mapping[str, Any]], str]] = {}
    for name in dict.fromkeys((*shown, *limited, *ranked)):
        if percentile is not None and name in limited and percentile_name(name) in plans[0]:
            title = f"p{percentile:g}\n{METRICS[name].short_label}"
            columns[title] = partial(marked_metric, percentile_name(name))
        else:
            columns[_title(name)] = partial(marked_metric, name)
    return columns


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
    rates = [(rate_name(point), point) for point in points]
    limits = [bool(limits_of({y: point[y]}, tier=point["tier"])) for y, point in rates]
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
        >>> list(varied_columns({"systems": ["mi300x"], "engine": "vllm", "formats": ["fp8"]}))
        ['system', 'format']
    """
    asked = {"system": "systems", "format": "formats", "KV": "kv_formats"}
    listed = listed_names(scenario.get("choices"))
    named = {"engine": "engine", "exchange": "expert_exchange", "overlap": "batch_overlap"}
    own_engines = bool(scenario.get("systems")) and "engine" not in scenario
    return {
        title: cell
        for title, cell in VARIED.items()
        if (scenario.get(asked[title]) if title in asked else named[title] in listed)
        or (title == "engine" and own_engines)
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
    return " and ".join(dict.fromkeys(str(plan[key]) for key in names if key in plan))


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


SIMULATION: Final = "simulation"  # of a plan whose load the simulation lowered
ENDED: Final = {
    "kv_cache": "the next larger number of requests searched does not fit in the KV cache",
    "memory": "the next larger batch searched does not fit in memory",  # of a graph of operators
    "max_num_seqs": "max_num_seqs admits no more requests",
    "max_num_batched_tokens": "max_num_batched_tokens admits no more requests at once",
    "prefill_workers": "the prefill workers limit the rate",
    "decode_workers": "the decode workers limit the rate",
    "loads": "no higher load is searched",
    NO_GAIN: "a higher load does not improve the objective",
}
LOWEST: Final = ("the lowest", "{:.2f} times the lowest")
LABELS: Final = {
    "slo_ttft_s": "TTFT",
    "slo_tpot_s": "TPOT",
    "slo_itl_s": "ITL",
    "slo_request_latency_s": "latency",
}


def reason_of(
    leader: Leader,
    found: Found,
    inputs: SearchInputs,
    steps: Sequence[Mapping[str, Any]],
) -> str:
    """Return the binding constraint of a plan and what bounds its phases, in a sentence."""
    balance = f"{_balance(leader.index, found, inputs)}; " if found.by_frontier else ""
    return f"{balance}{held_back(leader, found, inputs)}; {_bounds(steps)}"


def in_flight(load: float, inputs: SearchInputs) -> str:
    """Return the load of a plan: over the deployment, or in mode static per replica."""
    each = " per replica" if inputs.mode == "static" else ""
    return f"{quantities.counted(round(load), 'request')} in flight{each}"


def held_back(leader: Leader, found: Found, inputs: SearchInputs) -> str:
    """Return what prevents a higher load of a plan."""
    index, binding = leader.index, str(leader.row["binding_constraint"])
    columns = found.leading
    if leader.is_lowered:
        load = leader.at_first["concurrency"]
        chances = leader.at_first["probabilities"]
        binding = min(chances, key=lambda name: chances[name])
        statistic = _statistic(binding, inputs)
        limit = _limit(binding, inputs)
        return (
            f"at {in_flight(load, inputs)}, the best load by closed forms, simulated"
            f" {statistic}{limit} {chances[binding]:.0%}"
        )
    if binding == NO_GAIN and found.by_frontier:
        return "a higher load improves one objective at the expense of another"
    if binding in ENDED:
        return ENDED[binding]
    load = float(columns["next_load"][index])
    if binding == AVAILABILITY:
        return (
            f"at {in_flight(load, inputs)}, the spare replicas for availability ="
            f" {inputs.availability:g} do not fit"
        )
    chance = float(columns["next_probability"][index])
    # closed forms have no percentiles
    mean = "mean " if inputs.slo_percentile is not None and binding in LATENCIES else ""
    return f"at {in_flight(load, inputs)}, {mean}{_limit(binding, inputs)} {chance:.0%}"


def _balance(place: int, found: Found, inputs: SearchInputs) -> str:
    """Return each objective of a point of the frontier relative to the best of the frontier."""
    told = []
    for name in inputs.objectives:
        values = found.leading[name]
        if name == DELTA:
            told.append(f"{METRICS[name].short_label} {format_value(name, float(values[place]))}")
            continue
        best = values.max() if name in HIGHER else values.min()
        words = ("the highest", "{:.0%} of the highest") if name in HIGHER else LOWEST
        ratio = float(values[place] / best)
        label = METRICS[ITEM_NAMES.get(name, name) if inputs.of_items else name].short_label
        told.append(f"{words[ratio != 1.0].format(ratio)} {label}")
    return f"by closed forms it has {', '.join(told)} of the frontier"


def _statistic(binding: str, inputs: SearchInputs) -> str:
    """Return the percentile of an SLO, "" of the mean."""
    percentile = inputs.slo_percentile
    return "" if percentile is None or binding == RATE else f"p{percentile:g} of "


def _limit(binding: str, inputs: SearchInputs) -> str:
    if binding == RATE:
        return f"request_rate = {inputs.request_rate:g}/s is served with probability"
    limit = format_value(LATENCIES[binding], float(getattr(inputs, binding)))
    return f"{LABELS[binding]} is within {limit} with probability"


def _bounds(steps: Sequence[Mapping[str, Any]]) -> str:
    """Return the largest bound of both phases, with its share of the step."""
    told = []
    for phase in dict.fromkeys(row["phase"] for row in steps):
        shares: dict[str, float] = {}
        for row in steps:
            if row["phase"] == phase:
                shares[row["bound"]] = shares.get(row["bound"], 0.0) + row["share"]
        bound = max(shares, key=lambda name: shares[name])
        told.append(f"{phase} is bound by {bound} ({shares[bound]:.0%})")
    return ", ".join(told)


def ranking_notes(leaders: list[Leader]) -> list[str]:
    """Return how the ranking by closed forms changed, and why, in sentences.

    Args:
        leaders: Leaders in the order of their simulated metrics.
    """
    simulated = [leader for leader in leaders if leader.row["method"] == "simulate"]
    if not simulated:
        none = f"none of the {len(leaders)} best plans is" if leaders[1:] else "the plan is not"
        return [f"{none} simulated: {leaders[0].note}"]
    first = next(leader for leader in leaders if leader.rank == 1)
    now = leaders.index(first) + 1
    moved = sum(leader.rank != index for index, leader in enumerate(leaders, start=1))
    verb = "is" if len(simulated) == 1 else "are"
    count = "the plan is simulated"
    if len(simulated) < len(leaders):
        count = f"{len(simulated)} of the {len(leaders)} best plans {verb} simulated"
        count += " (the others cannot be, and have no queueing)"
    elif len(leaders) > 1:
        count = f"the {len(leaders)} best plans are simulated"
    notes = _before_simulated(leaders[: leaders.index(simulated[0])])
    if now == 1:
        others = f"; {moved} others change rank" if moved else ""
        return [f"{count}: the best by closed forms stays first{others}", *notes]
    fallen = f"{count}: the best by closed forms falls to rank {now}; {moved} plans change rank"
    notes = [fallen, *notes]
    if first.at_first:
        told = first.at_first
        notes.append(
            f"at {told['concurrency']:,} requests in flight, the best by closed forms has a TTFT"
            f" of {quantities.significant(told['ttft_s'])} s with queueing and"
            f" {quantities.significant(told['formula_ttft_s'])} s without"
        )
    return notes


def _before_simulated(leaders: list[Leader]) -> list[str]:
    """Return that the first plans are not simulated and what to do, if so."""
    if not leaders:
        return []
    rank = len(leaders)
    plans = "the first plan is" if rank == 1 else f"the first {rank} plans are"
    why = f"{plans} ranked by closed forms, which leave out queueing and may favor them"
    staged = all(leader.row.get("pp", 1) > 1 for leader in leaders)
    alone = "; set pp = 1 to search plans that can be simulated" if staged else ""
    text = (
        f"{why}: prefer the best simulated plan, at rank {rank + 1}, unless a benchmark of both"
        f" confirms the order{alone}"
    )
    return [text]


MIN_PROBABILITY: Final = 0.05  # advice to accept less would be advice to ignore the limit


def no_plan(found: Found, inputs: SearchInputs) -> quantities.InfeasibleError:
    """Return the error of a search without a plan that meets all limits."""
    if not found.size:
        labels = next(metric.parts for metric in RESULTS if metric.name == "rejected")
        counts = ", ".join(
            f"{labels.get(rule, rule)}: {count:,}" for rule, count in found.rejected.most_common()
        )
        sizes = {name: inputs.allowed(name) for name in SIZES}
        given = ", ".join(
            f"{name} = {' or '.join(map(str, own))}" for name, own in sizes.items() if own
        )
        rule = "must multiply to" if inputs.gpus is not None else "must not exceed"
        counts = "; ".join([*([counts] if counts else []), *sorted(found.reasons)])
        reason = counts or f"{given}: the sizes of a plan {rule} the GPUs"
        return quantities.InfeasibleError(
            f"no plan is possible on {quantities.counted(inputs.most_gpus, 'GPU')} ({reason})",
            advice=_fitting_advice(found, inputs),
        )
    index = int(ranked(found, inputs)[0])
    nearest = plan_row(found, index, inputs)
    missed = [
        f"{slo.removeprefix('slo_')} = {quantities.significant(1e3 * nearest[name], 4)} ms (limit"
        f" {quantities.significant(1e3 * limit, 4)} ms)"
        for slo, name in LATENCIES.items()
        if (limit := getattr(inputs, slo)) is not None and nearest[name] is not None
    ]
    if inputs.request_rate is not None:
        served = nearest["output_tokens_per_s_per_gpu"] * nearest["gpus"] / inputs.mix.mean_osl
        missed.append(
            f"{quantities.significant(served, 4)} requests/s (at least {inputs.request_rate:g})"
        )
    if inputs.availability is not None and not found.candidates["spares_fit"][index]:
        missed.append(
            f"its spare replicas for availability = {inputs.availability:g} do not fit on"
            f" {quantities.counted(inputs.most_gpus, 'GPU')}"
        )
    load = nearest.get("concurrency") or nearest.get("batch")
    loaded = f", {in_flight(load, inputs)}" if load else ""
    return quantities.InfeasibleError(
        f"none of {found.size:,} candidates meets all limits with probability"
        f" {inputs.min_slo_probability:g}; the nearest is"
        f" {nearest.get('system', nearest.get('prefill_system'))}, {plan_text(nearest)}{loaded},"
        f" with probability {quantities.two_digits(nearest['slo_probability'])}:"
        f" {', '.join(missed)}",
        advice=(
            "relax the limit that is missed",
            "use more GPUs, or a system with more bandwidth",
            *_lower_probability(nearest["slo_probability"], inputs.min_slo_probability),
        ),
    )


def _fitting_advice(found: Found, inputs: SearchInputs) -> tuple[str, ...]:
    """Return what makes the model fit, as for an estimate; nothing where other rules refuse all."""
    if not found.rejected.get("fits_in_memory"):
        return ()
    if inputs.mode == "disaggregated":
        return ("each pool holds the whole model: use more GPUs, or a format with fewer bytes.",)
    fields = next(combinations_of(inputs))
    # the exchange is one between ranks of a plan, which an estimate chooses
    own = {n: v for n, v in fields.items() if n not in (*EXCHANGE, "mode", "redundant_experts")}
    try:
        evaluate_one(read_scenario({**own, "gpus": inputs.most_gpus, "mode": "aggregated"}))
    except quantities.InfeasibleError as error:
        return error.advice
    except quantities.PerfatlasError:
        return ()
    return ()


def _lower_probability(found: float, wanted: float) -> tuple[str, ...]:
    """Return the advice to accept the probability of the nearest plan, if it is worth having."""
    if found < MIN_PROBABILITY:
        return ()
    return (f"accept a lower min_slo_probability than {wanted:g}",)


def no_simulated_plan(inputs: SearchInputs, count: int) -> quantities.InfeasibleError:
    """Return the error of a search whose best plans all miss a limit when simulated."""
    return quantities.InfeasibleError(
        f"the {quantities.counted(count, 'best plan')} by closed forms all miss a limit when"
        f" simulated, with probability {inputs.min_slo_probability:g} or more",
        advice=(
            "relax the limit that is missed",
            "simulate more plans: raise num_simulated",
            "set num_simulated = 0 for closed forms, which leave out queueing",
        ),
    )
