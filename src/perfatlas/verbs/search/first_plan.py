"""Lines about the first plan of a search: the next plan, its nodes and its cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.answer import comparison_note
from perfatlas.report.text import format_share
from perfatlas.verbs.search.plan_nodes import crossing_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def runner_up_line(plans: Sequence[Mapping[str, Any]], *, several: bool) -> str:
    """Return how far the second plan is behind the first.

    Args:
        plans: Rows of the answer.
        several: Whether there are several objectives.
    """
    deficit = plans[0]["runner_up_deficit"]
    if deficit is None:
        return "no other plan meets all limits"
    note = comparison_note(*(plan["tier"] for plan in plans[:2])) if len(plans) > 1 else ""
    beside = f" ({note})" if note else ""
    if deficit == 0:
        return f"the next plan is equal by the objective{beside}"
    mean = " by the geometric mean of the objectives" if several else ""
    lacks = plans[0].get("runner_up_lacks")
    why = f": {lacks}" if lacks else ""
    return f"the next plan is {format_share(deficit)} worse{mean}{beside}{why}"


def placement_line(plans: Sequence[Mapping[str, Any]]) -> str:
    """Return the nodes of the first plan, and which of the others cross nodes; "" for one node.

    Args:
        plans: Rows of the answer.

    Example:
        >>> from perfatlas.verbs.search.first_plan import placement_line
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
    """Return the GPUs of the nodes that the first plan occupies, "" if it leaves none idle.

    Args:
        plan: A row of the answer.
    """
    whole = plan.get("node_gpus", plan["gpus"])
    if whole == plan["gpus"]:
        return ""
    return (
        f"the first has {plan['gpus']:,} GPUs on nodes of {whole:,}: where nodes are not shared,"
        f" the {whole - plan['gpus']:,} others are idle and cost as much"
    )


def cost_line(plan: Mapping[str, Any], scenario: Mapping[str, Any]) -> str:
    """Return what the first plan costs, "" without a price.

    Args:
        plan: A row of the answer.
        scenario: The fields of the search.
    """
    price, cost = scenario.get("usd_per_gpu_hour"), plan.get("usd_per_million_output_tokens")
    if price is None or cost is None:
        return ""
    return (
        f"cost of the first: ${price * plan['gpus']:,.2f} per hour, ${cost:,.2f} per million"
        " output tokens at the load in the table"
    )
