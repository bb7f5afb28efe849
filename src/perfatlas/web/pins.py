"""Pinned questions side by side with the one of a page: metrics, intervals, operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

from perfatlas.quantities import UsageError, repr_for_error
from perfatlas.report.text import (
    format_value,
    interval_text,
    label_of,
    order_is_open,
    shown_metrics,
)
from perfatlas.web.catalogs import CatalogTable
from perfatlas.web.questions import form_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Answer = Mapping[str, Any]

PIN: Final = "pin"  # the parameter of an address, once for each pinned question
MAX_PINS: Final = 6
PLAN: Final = ("tp", "pp", "cp", "attention_dp", "ep", "moe_tp", "dp")  # that is launched
MAX_METRICS: Final = 12
MAX_OPERATORS: Final = 10
SAME_LOADS: Final = ("batch", "concurrency", "request_rate", "isl", "osl", "prefix", "model")


class Pinned(NamedTuple):
    """A question that is compared."""

    values: Mapping[str, str]  # Values by field
    answer: Answer  # The object of --json, or why there is none


def read_pins(texts: Sequence[str], most: int = MAX_PINS) -> list[dict[str, str]]:
    """Return the values of pinned questions by field.

    Args:
        texts: Their queries.
        most: How many there may be.

    Raises:
        UsageError: There are too many, or one is no query.
    """
    if len(texts) > most:
        raise UsageError(f"{len(texts)} pinned scenarios; at most {most} are compared")
    found = []
    for text in texts:
        pairs = parse_qsl(text, keep_blank_values=True)
        if not pairs or len(dict(pairs)) < len(pairs):
            raise UsageError(f"{PIN} = {repr_for_error(text)} is no question")
        found.append(dict(pairs))
    return found


def address(path: str, values: Mapping[str, str], pins: Sequence[Mapping[str, str]]) -> str:
    """Return the address of a question with pinned ones."""
    return f"{path}?{urlencode([*values.items(), *((PIN, urlencode(pin)) for pin in pins)])}"


def launch_address(values: Mapping[str, str], answer: Answer) -> str:
    """Return the address of the command that launches the plan of an estimate, "" for none.

    Args:
        values: Values of the question, by field.
        answer: Its answer.

    Example:
        >>> from perfatlas.web.pins import launch_address
        >>> asked = {"model": "openai/gpt-oss-20b", "system": "h200_sxm", "batch": "8"}
        >>> scenario = {"engine": "vllm@0.24", "mode": "static", "tp": 1, "batch": 8}
        >>> launch_address(asked, {"scenario": scenario, "results": {"gpus": 1}})
        '/search?model=openai%2Fgpt-oss-20b&system=h200_sxm&emit=vllm&tp=1&gpus=1&max_num_seqs=8'
    """
    scenario = answer["scenario"]
    engine = str(scenario.get("engine") or "").partition("@")[0]
    fields = form_fields("search")
    plan_known = "gpus" in answer["results"] and scenario.get("mode") != "disaggregated"
    if engine not in fields["emit"].choices or not plan_known:
        return ""
    kept = {name: text for name, text in values.items() if name in fields and name != "mode"}
    plan = {name: str(scenario[name]) for name in PLAN if scenario.get(name)}
    load = scenario.get("batch") or scenario.get("concurrency") or 1
    most = {"gpus": str(answer["results"]["gpus"]), "max_num_seqs": str(load)}
    return address("/search", {**kept, "emit": engine, **plan, **most}, [])


def names_of(questions: Sequence[Mapping[str, str]]) -> list[str]:
    """Return what tells questions apart: the values in which they differ."""
    fields = list(dict.fromkeys(name for values in questions for name in values))
    apart = [name for name in fields if len({values.get(name) for values in questions}) > 1]
    found = []
    for number, values in enumerate(questions, 1):
        words = [
            values[name] if name in ("model", "system") else f"{name} {values[name]}"
            for name in apart
            if name in values
        ]
        found.append(", ".join(words) or f"scenario {number}")
    return found


def compared(questions: Sequence[Pinned]) -> tuple[list[CatalogTable], list[str]]:
    """Return tables of metrics and operators of questions, the last being that of the page.

    Returns:
        Tables, and sentences on what to know before comparing.
    """
    names = names_of([one.values for one in questions])
    results = [one.answer.get("results", {}) for one in questions]
    metrics = [
        name
        for name in shown_metrics(results[-1])
        if _all_have(results, name) and any(result[name] for result in results)
    ]
    rows = []
    for name in metrics[:MAX_METRICS]:
        cells = [_metric_cell(result, results[-1], name) for result in results]
        rows.append([label_of(name), *cells])
    head = ["metric", *names[:-1], f"{names[-1]} (this page)"]
    tables = [CatalogTable(head, rows, texts=(0,))]
    tables += _operators([one.answer for one in questions], ["operator", *head[1:]])
    return tables, _remarks(questions)


def _all_have(results: Sequence[Mapping[str, Any]], name: str) -> bool:
    return all(isinstance(result.get(name), int | float) for result in results)


def _metric_cell(result: Mapping[str, Any], base: Mapping[str, Any], name: str) -> str:
    """Return a value with its interval, and its difference from the question of the page."""
    value = format_value(name, result[name])
    interval = interval_text(result, name)
    text = f"{value} ({interval})" if interval else value
    if result is base or not base[name]:
        return text
    change = result[name] / base[name] - 1.0
    certain = ", order not certain" if order_is_open(result, base, name) else ""
    return f"{text}; {change:+.0%}{certain}"


def _operators(answers: Sequence[Answer], head: Sequence[str]) -> list[CatalogTable]:
    """Return the operators whose time differs most, of answers that have operators."""
    times: list[dict[tuple[str, str], float]] = []
    for answer in answers:
        rows = [row for row in answer.get("breakdown", ()) if row.get("time_s") is not None]
        own: dict[tuple[str, str], float] = {}
        for row in rows:
            key = (str(row.get("phase") or ""), str(row["name"]))
            own[key] = own.get(key, 0.0) + row["time_s"]
        times.append(own)
    if not all(times):
        return []
    keys = dict.fromkeys(key for own in times for key in own)
    spread = {
        key: max(own.get(key, 0.0) for own in times) - min(own.get(key, 0.0) for own in times)
        for key in keys
    }
    largest = sorted((key for key in keys if spread[key] > 0.0), key=lambda key: -spread[key])
    rows = [
        [
            " ".join(filter(None, key)),
            *(format_value("time_s", own[key]) if key in own else "-" for own in times),
        ]
        for key in largest[:MAX_OPERATORS]
    ]
    title = "Operators whose time differs most"
    return [CatalogTable(list(head), rows, title=title, texts=(0,))] if rows else []


def _remarks(questions: Sequence[Pinned]) -> list[str]:
    """Return what differs beside what is compared."""
    values = [one.values for one in questions]
    differing = [name for name in SAME_LOADS if len({one.get(name) for one in values}) > 1]
    gpus = {one.answer.get("results", {}).get("gpus") for one in questions}
    found = []
    if differing:
        found.append(
            f"The scenarios differ in {', '.join(differing)}: latencies are those of different"
            " loads; compare tokens/s per GPU, cost and energy, or pin equal loads."
        )
    if len(gpus) > 1:
        found.append("The scenarios have different numbers of GPUs: compare rates per GPU.")
    found.append(
        "Differences are from the scenario of this page. The order of two scenarios is not certain"
        " where the 90% interval of their ratio includes 1; errors count as independent, and those"
        " that both share would narrow it."
    )
    return found
