"""What saved answers conclude together: who wins, by how much, when it flips, what to measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.commands.output import fits
from perfatlas.report import pages, text
from perfatlas.verbs.report.leads import Lead, Price, Scenario, lead_of, price_of
from perfatlas.verbs.report.plain import plain_summary
from perfatlas.vocabulary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Answer = Mapping[str, Any]

# the rate, the cost and the energy of answers: of each the first metric that all have
SUBJECTS: Final = (
    (
        "output_tokens_per_s_per_gpu",
        "tokens_per_s_per_gpu",
        "throughput_per_s",
        "requests_per_s",
        "goodput",
        "time_s",
    ),
    ("usd_per_million_output_tokens", "usd_per_million_tokens", "usd_per_million_items"),
    ("energy_per_output_token_j", "energy_per_token_j", "energy_per_item_j"),
)
FIRST: Final = ("model", "system", "engine", "format", "gemm_format")  # fields that name a scenario
LOADS: Final = ("isl", "osl", "prefix", "batch", "concurrency", "request_rate", "global_batch")
DEGREES: Final = ("tp", "pp", "cp", "ep", "attention_dp", "dp")
CONDITIONS: Final = {  # row of the table -> the fields whose values it has
    "format": ("format", "gemm_format", "moe_format"),
    "KV cache format": ("kv_format",),
    "engine": ("engine", "framework"),
}
MAX_ROWS: Final = 8  # of the table
MAX_TITLE: Final = 72  # letters of the names in it


def concluded(answers: Sequence[Answer]) -> tuple[str, list[pages.Section], list[str]]:
    """Return the title of a report, its first sections and names of its answers.

    There is neither for a single scenario; answers of one command and one scenario each have names.
    """
    found = _named([scenario for answer in answers for scenario in _scenarios(answer)])
    if len(found) < 2:
        return "", [], []
    verbs = " and ".join(dict.fromkeys(one.verb for one in found))
    fitting = [one for one in found if fits({"results": one.results})]
    names = [name for name in text.shown_metrics(found[0].results) if _all_have(fitting, name)]
    subjects = [next((n for n in group if n in names), "") for group in SUBJECTS]
    chosen = [name for name in subjects if name] or names[:1]
    title = _title(found)
    brief = ""
    if len({one.verb for one in found}) > 1:
        title, chosen, names = f"Answers of {verbs}", [], []
        said = [f"The answers answer different questions ({verbs}): none wins over another."]
    elif len(fitting) < 2 or not chosen:
        said, chosen = ["There are no two scenarios that fit and have a metric in common."], []
    else:
        ranked = {name: _ranked(fitting, name) for name in chosen}
        leads = {name: lead_of(name, order) for name, order in ranked.items()}
        price = price_of(ranked, *subjects[:2])
        said = [*_verdicts(leads), *([_price(price)] if price else []), *_differ(fitting)]
        brief = plain_summary(found, fitting, leads, price)
        said += _measure(answers, leads)
    said += [f"{one.name} does not fit in memory." for one in found if one not in fitting]
    sections = [pages.Section(title="In short", blocks=[brief])] if brief else []
    sections.append(pages.Section(title="Conclusion", blocks=said))
    if rows := [*chosen, *(name for name in names if name not in chosen)][:MAX_ROWS]:
        head = ("", *(one.name for one in found))
        cells = [[text.label_of(name), *(_cell(one, name) for one in found)] for name in rows]
        cells = [*_plans(found), *cells]
        sections.append(pages.Section(title="Results", blocks=[pages.Table(head=head, rows=cells)]))
    if len(answers) > 1:  # one has its own pictures
        sections += [
            pages.compared_section(
                name,
                {one.name: one.results for one in fitting},
                f"{text.label_of(name)} of {title}",
            )
            for name in chosen
        ]
    names = [one.name for one in found]
    if len({one.verb for one in found}) > 1 or len(names) != len(answers):
        names = []
    return title, sections, names


def _scenarios(answer: Answer) -> list[Scenario]:
    """Return the scenarios of an answer: one, or those that it compares and that are answered."""
    verb = str(answer.get("command", "")).partition(" --")[0]
    fields, results = answer.get("scenario") or {}, answer.get("results") or {}
    if verb == "compare":
        pairs = zip(results["rows"], fields["scenarios"], strict=True)
        return [Scenario("estimate", asked, row) for row, asked in pairs if row["error"] is None]
    if plans := results.get("plans") if verb == "search" else None:
        results = plans[0]
        fields = {**fields, "system": results.get("system", fields.get("system"))}
    tier = (answer.get("evidence") or {}).get("tier")
    return [Scenario(verb, fields, {"tier": tier, **results})]


def _named(found: Sequence[Scenario]) -> list[Scenario]:
    """Return scenarios with names made of the fewest fields that tell them apart."""
    fields = [*FIRST, "plan", *(name for one in found for name in one.fields)]
    names = [""] * len(found)
    for field in dict.fromkeys(fields):
        values = [
            _plan(one) if field == "plan" else text.format_value(field, one.fields.get(field))
            for one in found
        ]
        missing = {"-"} if field in FIRST else set[str]()  # of what does not fit
        if len({*values} - missing) <= 1 or field == "label":
            continue
        words = values if field in (*FIRST, "plan") else [f"{field} {value}" for value in values]
        longer = [" ".join(filter(None, pair)) for pair in zip(names, words, strict=True)]
        names = longer if len(set(longer)) > len(set(names)) else names
        if len(set(names)) == len(found):
            break
    else:
        names = [f"{name} answer {number}".strip() for number, name in enumerate(names, 1)]
    return [one._replace(name=name) for one, name in zip(found, names, strict=True)]


def _plans(found: Sequence[Scenario]) -> list[list[str]]:
    """Return rows of a table: GPUs, parallel plan, formats and engine, where they differ."""
    rows = [["GPUs", *(text.format_value("gpus", one.gpus) for one in found)]]
    rows.append(["plan", *map(_plan, found)])
    rows += [
        [label, *(", ".join(_formats(one.fields, names)) or "-" for one in found)]
        for label, names in CONDITIONS.items()
    ]
    return [row for row in rows if len({*row[1:]} - {"-"}) > 1]  # "-" of what does not fit


def _plan(one: Scenario) -> str:
    """Return the plan of a search, or the degrees of parallelism that are above 1."""
    if one.results.get("plan"):
        return str(one.results["plan"])
    degrees = ((name, one.fields.get(name)) for name in DEGREES)
    return (
        ", ".join(f"{name} {value}" for name, value in degrees if value and value != 1) or "1 GPU"
    )


def _formats(fields: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the values of fields, each once, in order."""
    return list(dict.fromkeys(str(fields[name]) for name in names if fields.get(name)))


def _title(found: Sequence[Scenario]) -> str:
    """Return what differs, of what is equal."""
    models = {str(one.fields.get("model", one.verb)) for one in found}
    plans = next((row[1:] for row in _plans(found) if row[0] == "plan"), [""] * len(found))
    parts = zip((one.name for one in found), plans, strict=True)
    shown = [name if not plan or plan in name else f"{name} ({plan})" for name, plan in parts]
    names = " or ".join(shown)
    if len(names) > MAX_TITLE:
        names = " or ".join(one.name for one in found)
    names = names if len(names) <= MAX_TITLE else f"{len(found)} scenarios"
    return f"{models.pop()}: {names}" if len(models) == 1 else names


def _all_have(found: Sequence[Scenario], name: str) -> bool:
    values = [one.results.get(name) for one in found]
    return all(isinstance(value, int | float) and value > 0.0 for value in values)


def _ranked(found: Sequence[Scenario], name: str) -> list[Scenario]:
    """Return scenarios by a metric, the best first."""
    higher = METRICS[name].better == "higher"
    return sorted(found, key=lambda one: float(one.results[name]), reverse=higher)


def _label(name: str) -> str:
    return text.label_of(name, short=True)


def _verdicts(leads: Mapping[str, Lead]) -> list[str]:
    """Return who wins in which metrics, in a sentence, and by how much, in one for each."""
    won: dict[str, list[str]] = {}
    for name, lead in leads.items():
        words = (
            f"{lead.best.name} {'wins on' if lead.is_certain else 'is ahead, not certainly, on'}"
        )
        words = "the first two are equal in" if lead.is_equal else words
        won.setdefault(words, []).append(_label(name))
    told = "; ".join(f"{words} {', '.join(names)}" for words, names in won.items())
    return [f"{told}.", *(_verdict(lead) for lead in leads.values() if not lead.is_equal)]


def _verdict(lead: Lead) -> str:
    """Return by how much a scenario leads in a metric, and whether that is certain."""
    name, best, second, ends, is_limit = lead
    values = [text.format_value(name, one.results[name]) for one in (best, second)]
    ratio = text.ratio_text(best.results[name], second.results[name])
    led = f"{_label(name)}: {values[0]} of {best.name}, {values[1]} of {second.name}, {ratio}"
    if is_limit:
        return f"{led}; not certain, as a time at the roofline is a lower limit."
    if ends is None:
        return f"{led}; its interval is not known."
    interval = f"{ends[0]:.2f} to {ends[1]:.2f}"
    if lead.is_certain:
        return f"{led}; certain, as the 90% interval of the ratio is {interval}."
    return (
        f"{led}; not certain: the 90% interval of the ratio is {interval}, so that"
        f" {second.name} may lead."
    )


def _price(price: Price) -> str:
    """Return up to which price of a GPU-hour the cheapest scenario stays so."""
    best = price.best.name
    if price.limit is not None:
        limit, assumed = price.limit
        return f"{best} wins on cost up to {limit:.2f} USD per GPU-hour, priced at {assumed:.2f}."
    told = f"Costs of {', '.join(one.name for one in price.unpriced)} are not known"
    if price.ratios:
        times = " and ".join(f"{ratio:.2f} times that of {one.name}" for one, ratio in price.ratios)
        told += f"; {best} wins on cost while its GPU-hour costs less than {times}"
    return f"{told}."


def _differ(found: Sequence[Scenario]) -> list[str]:
    """Return in what scenarios differ beside what is compared."""
    loads = [name for name in LOADS if len({str(one.fields.get(name)) for one in found}) > 1]
    gpus = sorted({one.results["gpus"] for one in found if one.results.get("gpus")})
    told = []
    if loads:
        told.append(f"Loads differ ({', '.join(loads)}): latencies are those of each load.")
    if len(gpus) > 1:
        counts = " or ".join(f"{count:,}" for count in gpus)
        told.append(f"Deployments have {counts} GPUs: compare rates per GPU.")
    return told


def _measure(answers: Sequence[Answer], leads: Mapping[str, Lead]) -> list[str]:
    """Return what to measure next: what decides by a comparison, or the widest interval."""
    for answer in answers:
        for row in answer["results"].get("decisions") or ():
            if row.get("reason") is None:
                share = text.share_text(row["variance_share"])
                what = f"{row['case']} on {row['system']}, {share} of the variance"
                return [f"Measure next: {what} of the difference."]
    widths = [
        (one.results[f"{name}_high"] / one.results[f"{name}_low"], name, one)
        for name, lead in leads.items()
        for one in (lead.best, lead.second)
        if name not in SUBJECTS[1]  # whose price no measurement narrows
        and one.results.get(f"{name}_low")
        and one.results.get(f"{name}_high")
    ]
    if not widths:
        return []
    _, name, widest = max(widths, key=lambda width: width[0])
    interval = text.interval_text(widest.results, name)
    kernels = "; compare --decide names kernels" if widest.verb == "estimate" else ""
    what = f"{widest.name}, whose interval of {_label(name)} is the widest ({interval})"
    return [f"Measure next: {what}{kernels}."]


def _cell(one: Scenario, name: str) -> str:
    """Return a result with its interval."""
    if one.results.get(name) is None:
        return "-"
    limits = text.limits_of(one.results, tier=str(one.results.get("tier")))
    value = text.limited_text(text.format_value(name, one.results[name]), limits.get(name, ""))
    interval = "" if name in limits else text.interval_text(one.results, name)
    return f"{value} ({interval})" if interval else value
