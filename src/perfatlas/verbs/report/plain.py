"""What saved answers conclude for readers who are not technical: at most six sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.report import text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOKENS: Final = "tokens (pieces of words)"
PURPOSES: Final = {  # verb -> what it is about
    "estimate": "to serve",
    "simulate": "to serve",
    "search": "to serve",
    "train": "to train",
    "search training": "to train",
    "goodput": "to run a training job on machines that fail",
}
AFTER: Final = {  # metric -> what follows its value
    "usd_per_million_output_tokens": f" for a million {TOKENS} of answers",
    "usd_per_million_tokens": f" for training on a million {TOKENS}",
    "usd_per_million_items": " for a million results",
    "energy_per_output_token_j": f" for a million {TOKENS} of answers",
    "energy_per_token_j": f" for training on a million {TOKENS}",
    "energy_per_item_j": " for a million results",
    "output_tokens_per_s_per_gpu": f" {TOKENS} of answers per second and chip",
    "tokens_per_s_per_gpu": f" {TOKENS} of training per second and chip",
    "throughput_per_s": " results per second",
    "requests_per_s": " requests per second",
    "goodput": " of the time is useful work",
}
MILLION_PER_KWH: Final = 1e6 / 3.6e6  # kWh of a million times a joule
SUBJECTS: Final = {"usd": "cost", "energy": "energy", "time": "time"}  # by part of a name
SAME_SHARE: Final = 0.005  # difference that is shown as 0%


class Scenario(NamedTuple):
    """One of the scenarios that are compared."""

    verb: str
    fields: Mapping[str, Any]  # Resolved fields
    results: Mapping[str, Any]  # Its metrics, flat
    name: str = ""  # What tells it from the others


def plain_summary(
    found: Sequence[Scenario],
    ranked: Mapping[str, Sequence[Scenario]],
    subjects: Sequence[str],
    price: tuple[float, float] | None,
) -> str:
    """Return what is compared, who wins by how much, speed, energy, certainty and what decides.

    Args:
        found: The scenarios, in the order of the answers.
        ranked: Those that fit by each subject that they have, the best first.
        subjects: The rate, the cost and the energy that they have, "" for none.
        price: Up to which price of a GPU-hour the cheapest stays so, and its own [USD].
    """
    named = _named(found)
    rate, cost, energy = subjects
    first = cost or next(iter(ranked))
    best, second = (named[one.name] for one in ranked[first][:2])
    sentences: list[str] = [_compared(found, named, [one.name for one in ranked[first]])]
    sentences += _lead(first, ranked[first], (best, second))
    sentences += _speed(ranked[first][:2], (best, second))
    if energy and energy != first:
        winners = ranked[energy][:2]
        sentences += _lead(energy, winners, tuple(named[one.name] for one in winners))
    sentences.append(_certainty(first, ranked[first], (best, second)))
    if price is not None:
        sentences.append(
            f"{best} stays the cheapest as long as one of its chips costs less than"
            f" {price[0]:.2f} USD per hour; {price[1]:.2f} USD are assumed."
        )
    elif not cost and rate.endswith("_per_gpu"):
        ratio = ranked[rate][0].results[rate] / ranked[rate][1].results[rate]
        sentences.append(
            f"Prices are not known; {best} is the better choice as long as one of its chips costs"
            f" less than {ratio:.2f} times as much as one of {second}."
        )
    whole = " ".join(one[0].upper() + one[1:] for one in sentences)
    explained, first_use, rest = whole.partition(TOKENS)
    return explained + first_use + rest.replace(TOKENS, "tokens")


def _named(found: Sequence[Scenario]) -> dict[str, str]:
    """Return plain names by name: the machines if they differ, else numbers of options."""
    systems = [str(one.fields.get("system", "")) for one in found]
    names = [name.partition("{")[0].replace("_", " ").upper() for name in systems]
    if len(set(names)) < len(found) or not all(names):
        names = [f"option {number}" for number, _ in enumerate(found, 1)]
    return {one.name: name for one, name in zip(found, names, strict=True)}


def _compared(found: Sequence[Scenario], named: Mapping[str, str], fitting: Sequence[str]) -> str:
    """Return what is compared, and for which work."""
    models = {str(one.fields["model"]).rpartition("/")[2] for one in found if "model" in one.fields}
    purpose = PURPOSES.get(found[0].verb, "")
    what = f"{purpose or 'to do one task'} {' or '.join(sorted(models))}".rstrip()
    listed = []
    for one in found:
        chips = one.results.get("gpus")
        facts = [f"{chips:,} chip{'s' * (chips > 1)}"] if chips else []
        facts += ["too little memory"] * (one.name not in fitting)
        listed.append(f"{named[one.name]} ({', '.join(facts)})" if facts else named[one.name])
    told = f"{len(found)} ways {what} are compared: {', '.join(listed[:-1])} and {listed[-1]}"
    if next(iter(named.values())) == "option 1":
        told += ", the columns of the results below from left to right"
    return f"{told}{_load([one.fields for one in found])}."


def _load(fields: Sequence[Mapping[str, Any]]) -> str:
    """Return the work that all scenarios share, as the end of a sentence."""
    names = ("isl", "osl", "batch", "concurrency", "dp")
    same: dict[str, Any] = {
        name: fields[0].get(name)
        for name in names
        if all(one.get(name) == fields[0].get(name) for one in fields)
    }
    if not (same.get("isl") and same.get("osl")):
        return ", for work that differs" if "isl" in fields[0] else ""
    sent, received = f"{same['isl']:,} {TOKENS}", f"{same['osl']:,}"
    users = same.get("concurrency")
    if same.get("batch") and "dp" in same:
        users = same["batch"] * (same["dp"] or 1)
    if users == 1:
        return f", for one user who sends {sent} and receives {received}"
    who = f"{users:,} users at a time" if users else "users"
    return f", for {who} who each send {sent} and receive {received}"


def _value(name: str, one: Scenario) -> str:
    """Return a metric; energies of a million in kWh."""
    value = one.results[name]
    if name.endswith("_j"):
        return f"{value * MILLION_PER_KWH:.3g} kWh"
    if name.startswith("usd"):
        return f"{value:,.2f} USD" if value >= 1.0 else f"{value:.3g} USD"
    return text.format_value(name, value)


def _lead(name: str, scenarios: Sequence[Scenario], names: Sequence[str]) -> list[str]:
    """Return who leads in a cost, an energy, a rate or a time, and by how much."""
    best, second = scenarios[:2]
    ratio = best.results[name] / second.results[name]
    if abs(ratio - 1.0) < SAME_SHARE:
        return [f"{names[0]} and {names[1]} are equal: {_value(name, best)}{AFTER.get(name, '')}."]
    if name.startswith("usd"):
        how = "costs least"
    elif name.endswith("_j"):
        how = "takes the least energy"
    else:
        how = "does the most work" if ratio > 1.0 else "is the fastest"
    by = f"{abs(ratio - 1.0):.0%} {'more' if ratio > 1.0 else 'less'} than {names[1]}"
    told = f"{names[0]} {how}: {_value(name, best)}{AFTER.get(name, '')}"
    return [f"{told}, {by} ({_value(name, second)})."]


def _speed(scenarios: Sequence[Scenario], names: Sequence[str]) -> list[str]:
    """Return what a user of the best option sees, and of the second."""
    told = []
    for one in scenarios:
        wait, rate = (one.results.get(n) for n in ("ttft_s", "output_tokens_per_s_per_user"))
        if not wait or not rate:
            return []
        told.append((text.format_value("ttft_s", wait), f"{rate:,.0f}"))
    (wait, rate), (other_wait, other_rate) = told
    seen = f"waits {wait} for the first word and then receives {rate} tokens per second"
    return [f"A user of {names[0]} {seen}; with {names[1]} it is {other_wait} and {other_rate}."]


def _certainty(name: str, scenarios: Sequence[Scenario], names: Sequence[str]) -> str:
    """Return whether the order of the first two is certain."""
    best, second = scenarios[:2]
    limits = [text.limits_of(one.results, tier=str(one.results["tier"])) for one in (best, second)]
    if any(name in one for one in limits):
        return "Some of these values are limits that no machine exceeds: the order is not certain."
    ends = text.ratio_interval(best.results, second.results, name)
    if ends is None or ends == (0.0, math.inf):
        return "The precision of these values is not known: the order is not certain."
    is_open = text.order_is_open(best.results, second.results, name)
    low, high = ends
    share = f"{low:.0%} to {high:.0%}"
    if low == 0.0 or high == math.inf:
        share = f"at most {high:.0%}" if low == 0.0 else f"at least {low:.0%}"
    what = next((word for ending, word in SUBJECTS.items() if ending in name), "speed")
    return (
        f"That order is {'not certain' if is_open else 'certain within the errors of the model'}:"
        f" with a probability of 90%, the {what} of {names[0]} is {share} of that of {names[1]}."
    )
