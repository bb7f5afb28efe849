"""`goodput` by closed forms: the productive share of a job's time, and the spares that it needs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas import quantities
from perfatlas.answer import Answer, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.reliability.fleet import closed_form
from perfatlas.reliability.fleet.laws import Exponential
from perfatlas.reliability.fleet.model import cause_rate_per_s, mean_repair_s, resolve_fleet
from perfatlas.scenario import interrupted_jobs
from perfatlas.scenario.fields import complete_scenario, refuse_unused, unused_warnings
from perfatlas.studies import smallest_number
from perfatlas.verbs.goodput.groups import COMMAND
from perfatlas.vocabulary.fields import Missing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.reliability.fleet.laws import Validity
    from perfatlas.reliability.fleet.model import Cause, Fleet

MAX_SEEDS: Final = 1000  # of one row
RENEWAL: Final = (
    "exact renewal efficiency (Daly 2006): exponential failures, also during restart, constant"
    " times, unlimited spares, steady state"
)


@signature_of("goodput")
def goodput(**fields: Any) -> Answer:  # noqa: ANN401 - checked by schema
    """Return the goodput of a job and its checkpoint interval.

    Args:
        **fields: checkpoint_write_s, restart_s, and the rate of interruptions: mtti_s, or
            node_mtbf_s with gpus, or failure_rate (a published one) with gpus; and
            checkpoint_interval_s (default: the optimum), detection_s, method, duration_s, gpus,
            failures_seen, failure_shape, spares, repair_s, usd_per_gpu_hour. Instead of
            checkpoint_write_s: checkpoint_bytes_per_s with checkpoint_bytes, model or train. train
                is a file of a training step, tokens its budget. With fleet,
                the file or name of a fleet, all fields of `fleet_goodput`.

    Raises:
        InvalidSpecError: A name or value is invalid, or a closed form does not apply.
        InfeasibleError: The job is larger than the fleet.

    Example:
        >>> from perfatlas.verbs.goodput import goodput
        >>> found = goodput(mtti_s=7.9 * 3600, checkpoint_write_s=60, restart_s=300)
        >>> print(f"{found.results['goodput']:.4f}")
        0.9266
    """
    if fields.get("fleet") is not None:
        from perfatlas.verbs.goodput.fleet_answer import fleet_goodput

        return fleet_goodput(**fields).answer
    predicted, fields = interrupted_jobs.predicted_step(fields)
    whole = interrupted_jobs.Goodput.read(fields)
    facts = interrupted_jobs.measured_step(whole)
    refuse_unused(whole.values, verb_fields(COMMAND))
    derived: dict[str, Any] = {
        "detection_s": whole.detection_s or 0.0
    } | interrupted_jobs.of_system(whole)
    if facts.write_s is not None:
        derived["checkpoint_write_s"] = facts.write_s
    inputs = _not_before_saved(
        interrupted_jobs.SimpleGoodput.read({**fields, **derived}), predicted
    )
    seeds = interrupted_jobs.seeds_of(inputs) if is_simulated(inputs) else [inputs.seed]
    seeded = (inputs.changed(seed=seed) for seed in seeds)
    answer = interrupted_jobs.over_seeds(
        [
            interrupted_jobs.with_energy(_answered(simple_goodput), simple_goodput)
            for simple_goodput in seeded
        ]
    )
    decided = {"method": answer.results["method"], "detection_s": inputs.detection_s}
    decided["gpus_per_node"] = inputs.gpus_per_node
    if answer.results["method"] == "simulate":
        decided["seed"] = inputs.seed
        decided["num_seeds"] = inputs.num_seeds
    notes = (*answer.evidence.assumptions, *facts.notes, *interrupted_jobs.topology_notes(whole))
    evidence = replace(answer.evidence, assumptions=notes)
    scenario = complete_scenario(verb_fields(COMMAND), whole, **decided)
    return interrupted_jobs.with_training(
        replace(answer, evidence=evidence, scenario=scenario), predicted
    )


def goodput_row(number: int, fields: Mapping[str, Any]) -> Answer:
    """Return the answer of a row; a simulated one without a seed has its number as seed.

    Rows are then independent, also with several seeds each. Rows with the same seed, set by a
    column or for all rows, meet the same failures.

    Args:
        number: The row, from 0.
        fields: Its fields, without empty cells.

    Raises:
        PerfatlasError: The row cannot be answered.
    """
    if "seed" in fields:
        return goodput(**fields)
    try:
        inputs = interrupted_jobs.Goodput.read(fields)
    except quantities.PerfatlasError:
        return goodput(**fields)  # raises the same error
    if not is_simulated(inputs):
        return goodput(**fields)
    first = number if inputs.num_seeds == 1 else (1 + number) * MAX_SEEDS
    return goodput(**fields, seed=first)


def _not_before_saved(
    inputs: interrupted_jobs.SimpleGoodput, predicted: interrupted_jobs.PredictedStep | None
) -> interrupted_jobs.SimpleGoodput:
    """Return a job whose checkpoints begin when storage has the one before."""
    least_s = 0.0 if predicted is None else predicted.least_interval_s
    given_s = inputs.checkpoint_interval_s
    if given_s is not None and given_s < least_s:
        raise quantities.InvalidSpecError(
            f"checkpoint_interval_s = {given_s:g} is shorter than the"
            f" {quantities.significant(least_s, 4)} s in which"
            " storage takes a checkpoint; raise it, or checkpoint_bytes_per_s of train"
        )
    if given_s is not None or least_s == 0.0 or is_simulated(inputs):
        return inputs
    best_s = _answered(inputs).results["optimal_checkpoint_interval_s"]
    if best_s is None or best_s >= least_s:
        return inputs
    return inputs.changed(checkpoint_interval_s=least_s)


def is_simulated(inputs: interrupted_jobs.Goodput) -> bool:
    """Return whether a job is simulated rather than answered by a closed form."""
    if inputs.fleet is not None or inputs.method == "simulate":
        return True
    return inputs.method == "auto" and bool(_beyond_closed_forms(inputs))


def _answered(inputs: interrupted_jobs.SimpleGoodput) -> Answer:
    """Return the answer of the simple form, without its scenario."""
    interruptions = interrupted_jobs.interruptions_of(inputs)
    beyond = _beyond_closed_forms(inputs)
    if is_simulated(inputs):
        return interrupted_jobs.simulated_goodput(inputs, interruptions, beyond)
    if beyond:
        raise quantities.InvalidSpecError(
            f"method = {inputs.method} is not valid here: {beyond}; use method simulate, or auto,"
            " which switches to the simulator automatically"
        )
    return _closed_form(inputs, interruptions)


def _beyond_closed_forms(inputs: interrupted_jobs.Goodput) -> str:
    """Return the feature that no closed form covers, "" where all are covered."""
    if inputs.failure_shape != 1.0:
        return (
            f"failure_shape = {inputs.failure_shape:g}: nodes age, and failures are not memoryless"
        )
    if inputs.spares is not None:
        return f"spares = {inputs.spares}: the job may wait for a repair"
    return ""


def _closed_form(
    inputs: interrupted_jobs.SimpleGoodput, interruptions: interrupted_jobs.Interruptions
) -> Answer:
    write_s, interval_s = inputs.checkpoint_write_s, inputs.checkpoint_interval_s
    best_s = (
        float(closed_form.optimal_interval_s(write_s, interruptions.mtti_s))
        if write_s > 0.0
        else None
    )
    if interval_s is None:
        if best_s is None:
            raise quantities.InvalidSpecError(
                "checkpoint_write_s = 0: free checkpoints have no optimal interval; set"
                " checkpoint_interval_s"
            )
        interval_s = best_s

    def goodput(mtti_s: float) -> Validity:
        return closed_form.renewal_efficiency(
            interval_s, write_s, inputs.restart_s, mtti_s, inputs.detection_s
        )

    middle = goodput(interruptions.mtti_s)
    low, high = (
        None if mtti_s is None else goodput(mtti_s)
        for mtti_s in (interruptions.low_s, interruptions.high_s)
    )
    simulated = Missing("a closed form is used", "set method = simulate")
    warnings = [str(middle.reason_C)]
    warnings += unused_warnings(
        inputs.values, verb_fields(COMMAND), {"simulation": lambda: simulated}
    )
    results = {
        "goodput": float(middle.value_C),
        "goodput_low": None if low is None else float(low.value_C),
        "goodput_high": None if high is None else float(high.value_C),
        "checkpoint_interval_s": interval_s,
        "optimal_checkpoint_interval_s": best_s,
        **interrupted_jobs.frequency(
            inputs, interruptions.mtti_s + inputs.detection_s, interruptions
        ),
        "method": "exact",
    }
    return Answer(
        command=COMMAND,
        scenario={},
        results=results | interrupted_jobs.lost_hours(inputs, results["goodput"]),
        breakdown=_buckets(inputs, interruptions, interval_s),
        evidence=Evidence(
            tier="exact",
            assumptions=(RENEWAL, *interrupted_jobs.simple_assumptions(inputs, interruptions)),
        ),
        warnings=tuple(text for text in dict.fromkeys(warnings) if text),
    )


def _buckets(
    inputs: interrupted_jobs.SimpleGoodput,
    interruptions: interrupted_jobs.Interruptions,
    interval_s: float,
) -> list[dict[str, Any]]:
    """Return the time by category as rows."""
    shares = closed_form.renewal_shares(
        interval_s,
        inputs.checkpoint_write_s,
        inputs.restart_s,
        interruptions.mtti_s,
        inputs.detection_s,
    )
    return interrupted_jobs.bucket_rows(
        shares, None if inputs.gpus is None else inputs.gpus * inputs.duration_s
    )


def pool_of(inputs: interrupted_jobs.SpareNodes) -> closed_form.NodePool:
    """Return the nodes described by fields.

    Raises:
        InvalidSpecError: Fields are missing, or the fleet is unknown.
    """
    if inputs.fleet is not None:
        return _of_fleet(inputs, resolve_fleet(inputs.fleet))
    values = {name: getattr(inputs, name) for name in ("nodes", "node_mtbf_s", "repair_s")}
    if inputs.nodes is None or inputs.node_mtbf_s is None or inputs.repair_s is None:
        missing = ", ".join(name for name, value in values.items() if value is None)
        raise quantities.InvalidSpecError(f"{missing} missing: set them, or fleet with gpus")
    rates = {1: 1.0 / inputs.node_mtbf_s}
    return closed_form.NodePool(inputs.nodes, rates, inputs.repair_s, inputs.crews, inputs.warm)


def _of_fleet(inputs: interrupted_jobs.SpareNodes, fleet: Fleet) -> closed_form.NodePool:
    """Return the nodes of a job on a fleet.

    Source: the superposition of causes is one stream with a mixture of repairs, whose mean is
        weighted by nodes; Erlang-B holds for any repair distribution, the chains for an exponential
        one.
    """
    if inputs.gpus is None:
        raise quantities.InvalidSpecError(
            "gpus of the job is missing: it determines the number of nodes"
        )
    nodes, rest = divmod(inputs.gpus, fleet.gpus_per_unit)
    if rest or not nodes:
        raise quantities.InvalidSpecError(
            f"gpus = {inputs.gpus} is not a multiple of the unit of {fleet.gpus_per_unit} GPUs: use"
            f" {max(min(nodes, fleet.units), 1) * fleet.gpus_per_unit}"
        )
    if fleet.parts_per_unit > 1:
        raise quantities.InvalidSpecError(
            f"units of this fleet need {fleet.parts_needed} of {fleet.parts_per_unit} parts, which"
            " no closed form here covers: use goodput with fleet and spares"
        )
    out = [cause for cause in fleet.causes if cause.effect == "stops" and cause.takes == "unit"]
    rates = [cause_rate_per_s(cause, nodes) * cause.units for cause in out]
    if not sum(rates):
        raise quantities.InvalidSpecError(
            "no cause in this fleet removes nodes: no spares are needed"
        )
    repairs = {repair.name: mean_repair_s(repair) for repair in fleet.repairs}
    first = fleet.repairs[0].name
    total = sum(
        rate * repairs[cause.repair or first] for rate, cause in zip(rates, out, strict=True)
    )
    repair_s = total / sum(rates)
    if not repair_s:
        raise quantities.InvalidSpecError(
            "repairs of this fleet take no time: no spares are needed"
        )
    crews = fleet.crews if inputs.crews is None else inputs.crews
    per_s: dict[int, float] = {}
    for cause in out:
        events = cause_rate_per_s(cause, nodes) / nodes
        per_s[cause.units] = per_s.get(cause.units, 0.0) + events
    names = ", ".join(cause.name for cause in out)
    hours = repair_s / quantities.HOUR_S
    notes = [
        f"nodes fail by {names}, and return after {quantities.significant(hours)} h on average"
    ]
    if many := [cause for cause in out if cause.units > 1]:
        named = ", ".join(
            f"{quantities.counted(cause.units, 'node')} by {cause.name}" for cause in many
        )
        notes.append(f"nodes that fail together: {named}; each is repaired separately")
    pool = closed_form.NodePool(nodes, per_s, repair_s, crews, inputs.warm, tuple(notes))
    left_out = _left_out(fleet, out, plain=pool.plain)
    return pool._replace(left_out=left_out, units=fleet.units)


def _left_out(fleet: Fleet, out: list[Cause], *, plain: bool) -> tuple[str, ...]:
    """Return the features of node failures that a closed form does not model."""
    used = {cause.repair or fleet.repairs[0].name for cause in out}
    repairs = [repair for repair in fleet.repairs if repair.name in used]
    stages = [stage for repair in repairs for stage in repair.stages]
    values = {
        "the age of parts": any(not isinstance(cause.lifetime, Exponential) for cause in out),
        "lemons": any(cause.lemons for cause in out),
        "false fixes": any(stage.false_fix for stage in stages),
        "the repair distributions": not plain
        and (len(stages) > 1 or not isinstance(stages[0].lasts, Exponential)),
    }
    return tuple(what for what, is_so in values.items() if is_so)


MAX_SPARES: Final = 100_000
ERLANG: Final = (
    "Erlang-B with spares + 1 servers: exact for any repair distribution with this mean,"
    " exponential failures, unlimited repair capacity and spares that do not fail"
)
CHAIN: Final = (
    "steady state of the birth-death chain of failed nodes: exponential failures and repairs"
)
SIMPLER: Final = "simpler_fleet"  # the tier where features of a fleet are not modelled


@signature_of("goodput spares")
def goodput_spares(**fields: Any) -> Answer:  # noqa: ANN401 - checked by schema
    """Return the share of time a job waits for nodes, or the spares for a target share.

    Args:
        **fields: nodes, node_mtbf_s, repair_s, or fleet and gpus of the job; and either spares, or
            target: the share of time in which the job does not wait, such as 0.999; crews
                (concurrent repairs, default: unlimited), warm (spares fail like other nodes).

    Raises:
        InvalidSpecError: A name or value is invalid.
        InfeasibleError: No number of spares reaches the target.

    Example:
        >>> from perfatlas.verbs.goodput import goodput_spares
        >>> day = 86400
        >>> found = goodput_spares(nodes=2048, node_mtbf_s=day / 6.5e-3, repair_s=day, target=0.999)
        >>> found.results["spares"]
        25
    """
    inputs = interrupted_jobs.SpareNodes.read(fields)
    refuse_unused(inputs.values, verb_fields("goodput spares"))
    if (inputs.spares is None) == (inputs.target is None):
        raise quantities.InvalidSpecError(
            "set either spares, for the share of time the job waits, or target, the share of time"
            " it does not wait, such as 0.999, for the number of spares needed"
        )
    pool = pool_of(inputs)
    spares = inputs.spares
    if spares is None:
        spares = _fewest(pool, 1.0 - (inputs.target or 0.0))
    results: dict[str, Any] = {
        "spares": spares,
        "blocked_probability": pool.blocked(spares),
        **pool.mean_failed(spares),
    }
    if inputs.target is not None and spares:
        results["blocked_probability_one_fewer"] = pool.blocked(spares - 1)
    return Answer(
        command="goodput spares",
        scenario=complete_scenario(verb_fields("goodput spares"), inputs),
        results=results,
        breakdown=[],
        evidence=Evidence(
            tier=SIMPLER if pool.left_out else "erlang_b" if pool.plain else "birth_death",
            assumptions=(ERLANG if pool.plain else CHAIN, *pool.notes),
        ),
        warnings=(
            *_warnings(inputs, pool, spares),
            *unused_warnings({**inputs.values, "spares": spares}, verb_fields("goodput spares")),
        ),
    )


def _fewest(pool: closed_form.NodePool, blocked: float) -> int:
    """Return the fewest spares with which a job waits at most a given share of the time.

    Source: blocking decreases with spares, so bisection finds the first.
    """
    if pool.plain:
        return closed_form.spares_for(pool.nodes, pool.rate_per_s, pool.repair_s, blocked=blocked)
    found = smallest_number(lambda spares: pool.blocked(spares) <= blocked, 0, MAX_SPARES)
    if found is None:
        raise quantities.InfeasibleError(
            f"even {quantities.counted(MAX_SPARES, 'spare')} leave the job waiting"
            f" {pool.blocked(MAX_SPARES):.1%} of the time.",
            advice=("more crews, a shorter repair or spares that do not fail",),
        )
    return found


def _warnings(
    inputs: interrupted_jobs.SpareNodes, pool: closed_form.NodePool, spares: int
) -> tuple[str, ...]:
    notes = []
    need = pool.nodes + spares
    short = pool.units is not None and need > pool.units
    if short:
        notes.append(
            f"the job and its {quantities.counted(spares, 'spare')} need {need:,} nodes, the fleet"
            f" has {pool.units:,}: the result assumes a large enough fleet"
        )
    if pool.left_out:
        more = f", fleet_units = {need}" if short else ""
        notes.append(
            f"this closed form does not model {', '.join(pool.left_out)}: goodput with fleet ="
            f" {inputs.fleet}, gpus = {inputs.gpus}, spares = {spares}{more} simulates them"
        )
    if pool.crews is not None and pool.crews < pool.repairing:
        slower = "1 crew repairs" if pool.crews == 1 else f"{pool.crews:,} crews repair"
        notes.append(
            f"{slower} slower than nodes fail: {pool.repairing:.1f} crews would be needed on"
            " average, so the job waits with any number of spares"
        )
    return tuple(notes)
