"""What saved answers conclude for readers who are not technical: at most six sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfatlas.report import text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.verbs.report.leads import Lead, Price, Scenario

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
SLOS: Final = {  # field -> what it limits
    "slo_ttft_s": "to the first word",
    "slo_tpot_s": "per token",
    "slo_itl_s": "between tokens",
    "slo_request_latency_s": "per answer",
}
MILLION_PER_KWH: Final = 1e6 / 3.6e6  # kWh of a million times a joule
LEADS: Final = {  # part of the name of a metric -> its subject, and what the best does
    "usd": ("cost", "costs least"),
    "energy": ("energy", "takes the least energy"),
    "goodput": ("useful share", "loses least time"),
    "time": ("time", "is the fastest"),
    "": ("speed", "does the most work"),
}


def plain_summary(
    found: Sequence[Scenario],
    fitting: Sequence[Scenario],
    leads: Mapping[str, Lead],
    price: Price | None,
) -> str:
    """Return what is compared, who wins by how much, certainty, speed, energy and what decides.

    Args:
        found: The scenarios, in the order of the answers.
        fitting: Those that fit in memory.
        leads: Who leads in rate, cost and energy, by metric.
    """
    named = _named(found)
    first = next((lead for name, lead in leads.items() if name.startswith("usd")), None)
    first = first or next(iter(leads.values()))
    sentences = [_compared(found, named, fitting), f"{_lead(first, named)}."]
    if not all(lead.is_equal for lead in leads.values()):
        others = [lead for lead in leads.values() if lead is not first]
        told = "; ".join(_lead(lead, named, certainty=True) for lead in others)
        sentences += [_certainty(first, named), f"{told}." if told else ""]
        sentences += [_speed(first, named), _price(price, named) if price else ""]
    words = ("option", "format")  # other names, such as gpt-oss, keep their letters
    whole = " ".join(
        one[0].upper() + one[1:] if one.startswith(words) else one for one in sentences if one
    )
    explained, first_use, rest = whole.partition(TOKENS)
    return explained + first_use + rest.replace(TOKENS, "tokens")


def _named(found: Sequence[Scenario]) -> dict[str, str]:
    """Return plain names by name: machines, models and formats that differ, or options."""
    names = _distinct(found)
    if len(set(names)) < len(found) or not all(names):
        names = [f"option {number}" for number, _ in enumerate(found, 1)]
    return {one.name: name for one, name in zip(found, names, strict=True)}


def _distinct(found: Sequence[Scenario]) -> list[str]:
    """Return the machine, the model and the format of each scenario, those that differ."""
    systems, models, formats = (
        [next((str(one.fields[n]) for n in names if one.fields.get(n)), "") for one in found]
        for names in (("system",), ("model",), ("gemm_format", "format"))
    )
    systems = [name.partition("{")[0].replace("_", " ").upper() for name in systems]
    models = [name.rpartition("/")[2] for name in models]
    systems, models, formats = (
        values if len(set(values) - {""}) > 1 else [""] * len(found)
        for values in (systems, models, formats)
    )
    names = [" with ".join(filter(None, pair)) for pair in zip(systems, models, strict=True)]
    return [
        f"{name} in {of}" if name and of else name or (f"format {of}" if of else "")
        for name, of in zip(names, formats, strict=True)
    ]


def _compared(
    found: Sequence[Scenario], named: Mapping[str, str], fitting: Sequence[Scenario]
) -> str:
    """Return what is compared, and for which work."""
    models = [str(one.fields["model"]).rpartition("/")[2] for one in found if "model" in one.fields]
    purpose = PURPOSES.get(found[0].verb, "")
    what = f"{purpose or 'to do one task'} {' or '.join(dict.fromkeys(models))}".rstrip()
    numbered = next(iter(named.values())) == "option 1"
    senders, sizes = [_senders(one) for one in found], [_sizes(one) for one in found]
    known = [{*values} - {""} for values in (senders, sizes)]  # "" of what does not fit
    differ = [len(values) > 1 for values in known]
    listed = []
    for index, (one, trait) in enumerate(zip(found, _distinct(found), strict=True)):
        facts = [trait] if trait and numbered else []
        facts += [f"{one.gpus:,} chip{'s' * (one.gpus > 1)}"] if one.gpus else []
        facts += [senders[index]] if differ[0] and senders[index] else []
        facts += [sizes[index]] if differ[1] and sizes[index] else []
        facts += ["too little memory"] * (one not in fitting)
        listed.append(f"{named[one.name]} ({', '.join(facts)})" if facts else named[one.name])
    told = f"{len(found)} ways {what} are compared: {', '.join(listed[:-1])} and {listed[-1]}"
    if numbered:
        told += ", the columns of the results below from left to right"
    if any(differ):
        told += ", at different loads"
    who, each = ("".join(values) if len(values) == 1 else "" for values in known)
    if who or each:
        told += f", for {who or 'users'}{' with' * bool(each)} {each}".rstrip()
    return f"{told}{_limits(found)}."


def _senders(one: Scenario) -> str:
    """Return how many send work at a time, "" where it is not stated."""
    fields = one.fields
    if fields.get("request_rate"):
        rate = fields["request_rate"]
        return f"{rate:g} request{'s' * (rate != 1.0)} per second"
    if fields.get("global_batch"):
        return f"a batch of {fields['global_batch']:,} per training step"
    users = one.results.get("concurrency") or fields.get("concurrency")
    users = users or (fields.get("batch") or 0) * (fields.get("dp") or 1)
    who = one.results.get("item") or "user"
    return f"one {who}" if users == 1 else f"{users:,} {who}s at a time" if users else ""


def _sizes(one: Scenario) -> str:
    """Return what each request sends and receives, "" where it is not stated."""
    sent, received, known = (one.fields.get(name) for name in ("isl", "osl", "prefix"))
    if not (sent and received):
        return ""
    of_them = f", {known:,} of them known," if known else ""
    return f"requests of {sent:,} {TOKENS}{of_them} and answers of {received:,}"


def _limits(found: Sequence[Scenario]) -> str:
    """Return the SLOs that each keeps at its best load, as the end of a sentence."""
    told = [
        " and ".join(
            f"at most {text.format_value(name, float(one.fields[name]))} {what}"
            for name, what in SLOS.items()
            if one.fields.get(name)
        )
        for one in found
    ]
    if not any(told):
        return ""
    return f", each at its best with {told[0] if len(set(told)) == 1 else 'its own limits of time'}"


def _value(name: str, one: Scenario) -> str:
    """Return a metric; energies of a million in kWh."""
    value = one.results[name]
    if name.endswith("_j"):
        return f"{value * MILLION_PER_KWH:.3g} kWh"
    if name.startswith("usd"):
        return f"{value:,.2f} USD" if value >= 1.0 else f"{value:.3g} USD"
    return text.format_value(name, value)


def _words(lead: Lead) -> tuple[str, str]:
    """Return the subject of a metric, and what the best does."""
    return next(words for part, words in LEADS.items() if part in lead.metric)


def _lead(lead: Lead, named: Mapping[str, str], *, certainty: bool = False) -> str:
    """Return who leads in a cost, an energy, a rate or a time, and by how much."""
    best, second = named[lead.best.name], named[lead.second.name]
    value = f"{_value(lead.metric, lead.best)}{AFTER.get(lead.metric, '')}"
    if lead.is_equal:
        return f"{best} and {second} are equal: {value}"
    by = f"{abs(lead.ratio - 1.0):.0%} {'more' if lead.ratio > 1.0 else 'less'} than {second}"
    other = _value(lead.metric, lead.second)
    if certainty:
        other += f"; {'certain' if lead.is_certain else 'not certain'}"
    return f"{best} {_words(lead)[1]}: {value}, {by} ({other})"


def _speed(lead: Lead, named: Mapping[str, str]) -> str:
    """Return what a user of the best option sees, and of the second."""
    told = []
    for one in (lead.best, lead.second):
        wait, rate = (one.results.get(n) for n in ("ttft_s", "output_tokens_per_s_per_user"))
        if not wait or not rate:
            return ""
        told.append((text.format_value("ttft_s", wait), f"{rate:,.0f}"))
    (wait, rate), (other_wait, other_rate) = told
    seen = f"waits {wait} for the first word and then receives {rate} tokens per second"
    second = f"with {named[lead.second.name]} it is {other_wait} and {other_rate}"
    return f"A user of {named[lead.best.name]} {seen}; {second}."


def _certainty(lead: Lead, named: Mapping[str, str]) -> str:
    """Return whether the order of the first two is certain, "" where they are equal."""
    subject, _ = _words(lead)
    if lead.is_equal:
        return ""
    if lead.is_limit:
        return f"The order in {subject} is not certain: some values are limits no machine exceeds."
    if lead.ends is None or lead.ends == (0.0, math.inf):
        return f"The order in {subject} is not certain: the precision of the values is not known."
    low, high = lead.ends
    share = f"{low:.0%} to {high:.0%}"
    if low == 0.0 or high == math.inf:
        share = f"at most {high:.0%}" if low == 0.0 else f"at least {low:.0%}"
    return (
        f"The order in {subject} is"
        f" {'certain within the errors of the model' if lead.is_certain else 'not certain'}:"
        f" with a probability of 90%, the {subject} of {named[lead.best.name]} is {share} of that"
        f" of {named[lead.second.name]}."
    )


def _price(price: Price, named: Mapping[str, str]) -> str:
    """Return up to which price of its chip the best stays the cheapest."""
    best = named[price.best.name]
    if price.limit is not None:
        return (
            f"{best} stays the cheapest as long as one of its chips costs less than"
            f" {price.limit[0]:.2f} USD per hour; {price.limit[1]:.2f} USD are assumed."
        )
    unknown = " and ".join(named[one.name] for one in price.unpriced)
    told = f"The prices of {unknown} are not known"
    if price.ratios:
        times = " and ".join(
            f"{ratio:.2f} times as much as one of {named[one.name]}" for one, ratio in price.ratios
        )
        told += f"; {best} is the cheapest as long as one of its chips costs less than {times}"
    return f"{told}."
