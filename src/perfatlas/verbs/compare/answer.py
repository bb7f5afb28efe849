"""`compare`: estimates of several scenarios side by side, and what makes the difference."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import Answer, Evidence, comparison_note, joined_tiers
from perfatlas.declarations import missing_lab, signature_of
from perfatlas.networks import is_graph
from perfatlas.quantities import InfeasibleError, InvalidSpecError, PerfatlasError, UsageError
from perfatlas.report.text import limits_of, order_is_open, ratio_interval
from perfatlas.scenario.deployments import estimate_of, step_costs
from perfatlas.scenario.fields import InputFields
from perfatlas.verbs.compare.best_plans import best_plan, check_slos, has_slos, slos_of
from perfatlas.verbs.compare.groups import Alternatives
from perfatlas.verbs.compare.metrics import ACCURACY, PASSES, RATED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfatlas.lab.harness import Case


DESIGNS: Final = 2  # between which a decision is made
SIZES: Final = ("tp", "pp", "cp", "attention_dp", "ep", "moe_tp", "dp")
POOLS: Final = ("", "prefill_", "decode_", "feed_forward_")


def step_differences(
    label: str,
    base: Sequence[Mapping[str, Any]],
    other: Sequence[Mapping[str, Any]],
    steps: tuple[float, float] = (1.0, 1.0),
) -> list[dict[str, Any]]:
    """Return the difference of each operator of each phase, the largest first.

    Args:
        other: Breakdown of the compared scenario.
        steps: Prefill steps of both, whose sizes may differ.

    Returns:
        Rows of `label`, `phase`, `name`, `base_time_s` and `time_s` (of one decode step and of all
        prefill steps, 0 where the operator does not run), `difference_s`, `base_bound` and `bound`.
        The differences of a phase sum to that of its steps.

    Limits: All prefill steps are taken as full ones.

    Example:
        >>> from perfatlas.verbs.compare.answer import step_differences
        >>> one = [{"phase": "decode", "name": "attention", "time_s": 2.0, "bound": "memory"}]
        >>> two = [{"phase": "decode", "name": "attention", "time_s": 1.5, "bound": "memory"}]
        >>> step_differences("h200", one, two)[0]["difference_s"]
        -0.5
    """
    before, after = _by_operator(base, steps[0]), _by_operator(other, steps[1])
    rows = []
    for key in dict.fromkeys((*before, *after)):
        first, second = before.get(key, {}), after.get(key, {})
        rows.append(
            {
                "label": label,
                "phase": key[0],
                "name": key[1],
                "base_time_s": first.get("time_s", 0.0),
                "time_s": second.get("time_s", 0.0),
                "difference_s": second.get("time_s", 0.0) - first.get("time_s", 0.0),
                "base_bound": first.get("bound"),
                "bound": second.get("bound"),
            }
        )
    phases = list(dict.fromkeys(row["phase"] for row in rows))
    return sorted(rows, key=lambda row: (phases.index(row["phase"]), -abs(row["difference_s"])))


def _by_operator(
    rows: Iterable[Mapping[str, Any]], steps: float
) -> dict[tuple[str, str], dict[str, Any]]:
    """Return time and bound by (phase, name); rows of one name are added."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault((row["phase"], row["name"]), {"time_s": 0.0, "bound": None})
        time_s = row["time_s"] * (steps if row["phase"] == "prefill" else 1.0)
        if time_s >= known["time_s"]:
            known["bound"] = row["bound"]
        known["time_s"] += time_s
    return found


MIXED_TIERS: Final = (
    "the compared scenarios are priced in different tiers: a time of tier bound is a lower limit"
)


@signature_of("compare")
def compare(
    *,
    scenarios: Sequence[Mapping[str, Any]] | None = None,
    decide: bool = False,
    **fields: Any,  # noqa: ANN401 - the vocabulary is checked by the schema of estimates
) -> Answer:
    """Return the estimates of several scenarios, and the difference of each to the first.

    Args:
        scenarios: Scenarios as mappings of fields of `estimate`, each with an optional `label`.
            Those with SLOs and `gpus` are answered at the best plan of `search` by closed forms.
        decide: Also name the measurements that would most change which of two designs is faster.
        **fields: Fields that all scenarios share, and `models`, `systems`, `engines` and
            `formats`, whose combinations are compared.

    Returns:
        An answer with `rows`, the results of each scenario or its error; `ratios`, a row per metric
        of each scenario but the first, with its interval; and `differences`, a row per operator and
        phase of each. With `decide`, `decisions`.

    Raises:
        InvalidSpecError: There are fewer than two scenarios, or the first cannot be answered.
        UsageError: There are more than two to decide between.
        UnsupportedError: Their operators have no intervals to decide by.

    Example:
        >>> from perfatlas.verbs.compare import compare
        >>> answer = compare(
        ...     model="meta-llama/Llama-3.1-8B", system="h100_sxm", systems=("h200_sxm",)
        ... )
        >>> rows = answer.results["rows"]
        >>> rows[0]["label"], rows[1]["tpot_s"] < rows[0]["tpot_s"]
        ('h100_sxm', True)
        >>> decode = next(row for row in answer.results["ratios"] if row["metric"] == "tpot_s")
        >>> decode["ratio_low"] < decode["ratio"] < decode["ratio_high"], decode["certain"]
        (True, False)
    """
    return compared(compared_scenarios(scenarios, fields), decide=decide)[0]


def compared(asked: Sequence[Mapping[str, Any]], *, decide: bool) -> tuple[Answer, list[Case]]:
    """Return the answer of a comparison, and the cases whose measurement would decide it.

    Args:
        asked: Labelled scenarios; the first is the base.
        decide: Whether there is a decision to make.

    Raises:
        UsageError: There are more than two to decide between.
    """
    if decide and len(asked) > DESIGNS:
        raise UsageError(f"--decide compares two designs, and there are {len(asked)}")
    _check_kinds(asked)
    check_slos(asked)
    asked = _on_one_plan(asked)
    base = _base(asked[0])
    first = _named(asked[0], base)
    rows, differences = [_row(first["label"], base, base)], []
    ratios: list[dict[str, Any]] = []
    resolved = [_resolved(first, base)]
    answers = [base]
    for given in asked[1:]:
        row = given
        try:
            answer = _estimated(given)
            row = _named(given, answer)
        except PerfatlasError as problem:
            rows.append({"label": row["label"], "error": str(problem)})
            resolved.append(dict(row))
            continue
        answers.append(answer)
        rows.append(_row(row["label"], answer, base))
        ratios += ratios_to(rows[-1], rows[0])
        resolved.append(_resolved(row, answer))
        steps = (_prefill_steps(base), _prefill_steps(answer))
        differences += step_differences(row["label"], base.breakdown, answer.breakdown, steps)
    tiers = {answer.evidence.tier for answer in answers}
    warnings = dict.fromkeys(text for answer in answers for text in answer.warnings)
    if len(tiers) > 1 and any("bound" in tier for tier in tiers):
        warnings = {MIXED_TIERS: None, **warnings}
    decision, cases = _decision(asked, answers) if decide else ({}, [])
    answer = Answer(
        command="compare",
        scenario={"scenarios": resolved, **({"decide": True} if decide else {})},
        results={"rows": rows, "ratios": ratios, "differences": differences, **decision},
        breakdown=[],
        evidence=_joined(answers),
        warnings=tuple(warnings),
    )
    return answer, cases


def _on_one_plan(asked: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return scenarios that state only their GPUs on one plan, or where none runs all, at one load.

    The plan is the one among those that each takes alone with most GPUs per replica.
    """
    free = [row for row in asked if row.get("gpus") and not any(row.get(size) for size in SIZES)]
    same_gpus = len({str(row["gpus"]) for row in free}) == 1
    if (
        not same_gpus
        or has_slos(free[0])
        or any(row.get("mode") == "disaggregated" for row in free)
    ):
        return asked
    alone = [(row, answer) for row in free if (answer := _estimated_or_none(row))]
    plans = {plan_of(answer.scenario): answer.scenario for _, answer in alone}
    if len(plans) < DESIGNS:
        return asked
    for plan in sorted(plans.values(), key=lambda sizes: sizes["dp"]):
        sizes = {name: plan[name] for name in SIZES if name in plan}
        if all(_estimated_or_none({**row, **sizes}) for row, _ in alone):
            return [{**row, **sizes} if row in free else row for row in asked]
    load = {"batch": None, "concurrency": sequences_of(alone[0][1].scenario)}
    return [{**row, **load} if row in free and row.get("batch") else row for row in asked]


def _estimated_or_none(row: Mapping[str, Any]) -> Answer | None:
    try:
        return _estimated(row)
    except PerfatlasError:
        return None


def plan_of(scenario: Mapping[str, Any]) -> str:
    """Return the plan of a resolved scenario: its sizes above 1.

    Example:
        >>> from perfatlas.verbs.compare.answer import plan_of
        >>> plan_of({"tp": 4, "pp": 1, "dp": 2}), plan_of({"tp": 1})
        ('tp 4, dp 2', 'tp 1')
    """
    names = (f"{pool}{name}" for pool in POOLS for name in (*SIZES, "workers"))
    sizes = {name: scenario[name] for name in names if int(scenario.get(name) or 1) > 1}
    return ", ".join(f"{name} {size}" for name, size in sizes.items()) or "tp 1"


def sequences_of(scenario: Mapping[str, Any]) -> int | None:
    """Return the sequences in flight over a whole deployment of a resolved scenario."""
    if scenario.get("concurrency") is not None:
        return int(scenario["concurrency"])
    batch = scenario.get("batch")
    return None if batch is None else int(batch) * int(scenario.get("dp") or 1)


def _named(row: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """Return a scenario whose label names the engine that was chosen for it."""
    engine = f"{answer.scenario['engine']} (default)"
    return {**row, "label": row["label"].replace("default engine", engine)}


def _decision(
    asked: Sequence[Mapping[str, Any]], answers: Sequence[Answer]
) -> tuple[dict[str, Any], list[Case]]:
    """Return what decides between two designs."""
    try:
        from perfatlas.lab.harness import decided
    except ModuleNotFoundError as missing:
        raise missing_lab("--decide") from missing
    if len(answers) < DESIGNS:
        raise UsageError("--decide needs two designs that can be answered; leave it out")
    return decided(answers, [step_costs(_fields(row)) for row in asked])


def _estimated(scenario: Mapping[str, Any]) -> Answer:
    return estimate_of(_fields(scenario))


def _fields(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an estimate, at the best plan where there are SLOs."""
    fields = {name: value for name, value in scenario.items() if name != "label"}
    return best_plan(fields) if has_slos(fields) else fields


def _base(scenario: Mapping[str, Any]) -> Answer:
    """Return the estimate with which others are compared; a refusal names the scenario."""
    try:
        return _estimated(scenario)
    except InfeasibleError as problem:
        subject = f"{scenario['label']}, with which the others are compared, cannot be answered"
        raise problem.of(subject) from problem


def _resolved(asked: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """Return the resolved scenario of an estimate with its label and SLOs."""
    return {"label": asked["label"], **answer.to_dict()["scenario"], **slos_of(asked)}


def _check_kinds(asked: Sequence[Mapping[str, Any]]) -> None:
    """Refuse graphs of operators beside language models, whose results have no name in common."""
    graphs = dict.fromkeys(str(row["model"]) for row in asked if is_graph(row.get("model")))
    others = dict.fromkeys(str(row.get("model")) for row in asked if not is_graph(row.get("model")))
    if graphs and others:
        raise InvalidSpecError(
            f"{', '.join(graphs)}, a graph of operators, and {', '.join(others)} have no results in"
            " common; compare graphs with graphs"
        )


def _row(label: str, answer: Answer, base: Answer) -> dict[str, Any]:
    results = answer.to_dict()["results"]
    found = {
        f"{name}{end}": results[f"{name}{end}"]
        for name in (*RATED, *ACCURACY)
        for end in ("", "_low", "_high")
        if f"{name}{end}" in results
    }
    found |= {name: results[name] for name in ("gpus", "item") if name in results}
    found |= {"plan": plan_of(answer.scenario), "concurrency": sequences_of(answer.scenario)}
    found["engine"] = answer.scenario["engine"]
    found["kv_capacity_tokens"] = results["memory"].get("kv_capacity_tokens")
    found["tier"] = answer.evidence.tier
    found["tier_note"] = comparison_note(answer.evidence.tier, base.evidence.tier)
    return {"label": label, **found, "error": None}


def ratios_to(row: Mapping[str, Any], base: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the ratio of each metric of a compared scenario to that of the base.

    Returns:
        Rows of `label`, `metric`, `ratio`, its 90% interval `ratio_low`, `ratio_high`, and
        `certain`: whether the interval is known and excludes 1. It is not known where one of the
        two is a limit, such as a time at the roofline. A metric that is 0 in the base has no row.

    Example:
        >>> from perfatlas.verbs.compare.answer import ratios_to
        >>> base = {"label": "h100", "tpot_s": 3.0, "tpot_s_low": 3.0, "tpot_s_high": 3.0}
        >>> faster = {"label": "h200", "tpot_s": 1.5, "tpot_s_low": 1.0, "tpot_s_high": 2.0}
        >>> row = ratios_to(faster, base)[0]
        >>> row["metric"], row["ratio"], round(row["ratio_high"], 3), row["certain"]
        ('tpot_s', 0.5, 0.667, True)
    """
    limits = [limits_of(one, tier=str(one.get("tier") or "")) for one in (row, base)]
    found = []
    for name in RATED:
        other_item = name in PASSES and row.get("item") != base.get("item")
        if row.get(name) is None or not base.get(name) or other_item:
            continue
        is_limit = any(name in one for one in limits)
        low, high = (None if is_limit else ratio_interval(row, base, name)) or (None, None)
        found.append(
            {
                "label": row["label"],
                "metric": name,
                "ratio": row[name] / base[name],
                "ratio_low": low,
                "ratio_high": high,
                "certain": not is_limit and not order_is_open(row, base, name),
            }
        )
    return found


def _prefill_steps(answer: Answer) -> float:
    return float(answer.results.get("prefill_steps") or 1.0)


def _joined(answers: Sequence[Answer]) -> Evidence:
    """Return the evidence of all answers, without repetitions."""
    calibrations = {
        str(calibration["id"]): calibration
        for answer in answers
        for calibration in answer.evidence.calibrations
    }
    versions: dict[str, str] = {}
    for answer in answers:
        versions |= answer.evidence.data_versions
    return Evidence(
        tier=joined_tiers([answer.evidence.tier for answer in answers]),
        calibrations=tuple(calibrations.values()),
        data_versions=versions,
        assumptions=tuple(dict.fromkeys(t for a in answers for t in a.evidence.assumptions)),
        sources=tuple(dict.fromkeys(t for a in answers for t in a.evidence.sources)),
    )


ALTERNATIVES: Final = {
    "models": "model",
    "systems": "system",
    "engines": "engine",
    "formats": "format",
}
REQUIRED: Final = ("models", "systems")  # whose field has no default
MAX_SCENARIOS: Final = 64


class AlternativeInputs(InputFields, Alternatives):
    """What differs between the compared scenarios."""


def compared_scenarios(
    scenarios: Sequence[Mapping[str, Any]] | None, fields: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the compared scenarios, each with its `label`; the first is the base.

    Args:
        scenarios: Given scenarios; a `label` names one.
        fields: Fields that all share, and lists of alternatives, which are combined.

    Raises:
        InvalidSpecError: There are fewer than two scenarios, too many, or two with one label.

    Example:
        >>> from perfatlas.verbs.compare.answer import compared_scenarios
        >>> found = compared_scenarios(None, {"system": "h100_sxm", "systems": ("h200_sxm",)})
        >>> [(one["label"], one["system"]) for one in found]
        [('h100_sxm', 'h100_sxm'), ('h200_sxm', 'h200_sxm')]
    """
    lists = AlternativeInputs.read({n: v for n, v in fields.items() if n in ALTERNATIVES})
    shared = {name: v for name, v in fields.items() if name not in ALTERNATIVES and v is not None}
    varied = {
        name: (*_first_value(several, shared, scenarios), *getattr(lists, several))
        for several, name in ALTERNATIVES.items()
        if getattr(lists, several)
    }
    found = []
    for index, given in enumerate(scenarios or [{}]):
        for values in product(*varied.values()):
            chosen = dict(zip(varied, values, strict=True))
            named = [str(given["label"])] if "label" in given else []
            if not named and scenarios:
                named = [f"scenario {index + 1}"]
            words = (str(v or given.get(name, f"default {name}")) for name, v in chosen.items())
            label = " ".join([*named, *words]) or "as given"
            own = {name: v for name, v in chosen.items() if v is not None}
            found.append({**given, **shared, **own, "label": label})
    for several in REQUIRED:
        name, values = ALTERNATIVES[several], getattr(lists, several)
        if values and (len(found) < 2 or not all(row.get(name) for row in found)):
            raise InvalidSpecError(
                f"--{several} {','.join(values)} needs --{name}, the {name} with which they are"
                f" compared, or a second {name}"
            )
    if len(found) < 2:
        raise InvalidSpecError(
            "a comparison needs two scenarios: give two files, or lists such as --systems"
            " h100_sxm,h200_sxm, --models, --engines or --formats; the first, or that of --system,"
            " --model, --engine or --format, is the base"
        )
    if len(found) > MAX_SCENARIOS:
        raise InvalidSpecError(
            f"{len(found)} scenarios are more than the {MAX_SCENARIOS} of a comparison; use"
            " `perfatlas estimate --table` for many"
        )
    labels = [row["label"] for row in found]
    if twice := next((one for one in labels if labels.count(one) > 1), ""):
        raise InvalidSpecError(f"two scenarios are called {twice!r}; give different ones")
    return found


def _first_value(
    several: str, shared: Mapping[str, Any], scenarios: Sequence[Mapping[str, Any]] | None
) -> tuple[Any, ...]:
    """Return the value that listed ones are compared with, none where the first of them is it."""
    value = shared.get(ALTERNATIVES[several])
    return () if value is None and several in REQUIRED and not scenarios else (value,)
