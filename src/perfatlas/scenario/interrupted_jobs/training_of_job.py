"""Goodput of a job whose step is predicted: MFU, checkpoints and a token budget in one answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from perfatlas.cost import gpu_price
from perfatlas.energy import board_energy
from perfatlas.files import read_toml
from perfatlas.hardware import resolve_system
from perfatlas.networks import is_graph
from perfatlas.quantities import InvalidSpecError, UnsupportedError, significant
from perfatlas.reliability.fleet.model import failure_domains
from perfatlas.scenario.interrupted_jobs.job_fields import Goodput
from perfatlas.vocabulary.fields import PRICES_BY_SYSTEM
from perfatlas.vocabulary.metrics import gpu_hours

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.answer import Answer
    from perfatlas.scenario.training_steps import TrainingStep

ENDS: Final = ("", "_low", "_high")
DERIVED: Final = (
    *("mfu", "checkpoint_bytes", "checkpoint_write_s", "restart_s", "checkpoint_lag_s"),
    *("power_w", "idle_power_w", "usd_per_gpu_hour"),
)
OF_THE_STEP: Final = ("model", "system", "format", "step_time_s", "tokens_per_step", "mfu")


@dataclass(frozen=True, kw_only=True)
class PredictedStep:
    """The training step of a job."""

    step: TrainingStep  # The step, as `train` answers it
    tokens: float | None  # Tokens to train; None without a budget
    # Price and both ends of its interval; None without one
    usd_per_gpu_hour: tuple[float, float, float] | None
    given: Mapping[str, Any]  # The fields of goodput that were given

    @property
    def least_interval_s(self) -> float:
        """Shortest time between two checkpoints [s]: storage has one before the next begins."""
        results = self.step.results
        return float(results.get("checkpoint_save_s", 0.0) - results.get("checkpoint_stall_s", 0.0))

    @property
    def in_scenario(self) -> dict[str, Any]:
        """The fields of goodput as given, instead of what follows from the step."""
        from_step = {name: self.given.get(name) for name in DERIVED}
        return from_step | {"train": self.given["train"], "tokens": self.given.get("tokens")}


def predicted_step(fields: Mapping[str, Any]) -> tuple[PredictedStep | None, dict[str, Any]]:
    """Return the step of the field `train`, and the other fields with what follows from it.

    The GPUs are those of the layout. The size of a checkpoint is that of the model states; on a
    fleet, the MFU becomes a factor of the answer.

    Args:
        fields: The fields of goodput; without `train` they are returned as they are.

    Raises:
        InvalidSpecError: The file has no valid training step, or a field contradicts it.
        InfeasibleError: The step does not fit in memory.
    """
    if fields.get("train") is None:
        return None, _with_price(fields)
    inputs = Goodput.read(fields)
    others = {name: value for name, value in fields.items() if name not in ("train", "tokens")}
    for name in OF_THE_STEP:
        if others.get(name) is not None:
            raise InvalidSpecError(f"{name} follows from train = {fields['train']}; leave one out")
    step = _step_of(str(inputs.train))
    gpus = step.results["gpus"]
    if inputs.gpus not in (None, gpus):
        raise InvalidSpecError(
            f"gpus = {inputs.gpus:,} contradicts the {gpus:,} GPUs of {fields['train']}; leave out"
            " gpus"
        )
    derived: dict[str, Any] = {"gpus": gpus} | _of_checkpoints(step, inputs)
    price = step.price
    if inputs.usd_per_gpu_hour is not None:
        price = gpu_price(step.question.systems[0].name, inputs.usd_per_gpu_hour)
    derived["usd_per_gpu_hour"] = price.usd[0] if price.is_known else None
    derived |= {name: watts for name, watts in _power(step).items() if others.get(name) is None}
    if others.get("checkpoint_bytes_per_s") is not None and others.get("checkpoint_bytes") is None:
        derived["checkpoint_bytes"] = step.results["checkpoint_bytes"]
    of_nodes = others.get("node_mtbf_s") is not None and others.get("fleet") is None
    if of_nodes and others.get("gpus_per_node") is None:
        derived["gpus_per_node"] = failure_domains(step.question.systems[0]).gpus_per_node
    if others.get("fleet") is not None:
        derived["mfu"] = step.results["mfu"]
    predicted = PredictedStep(
        step=step,
        tokens=inputs.tokens,
        usd_per_gpu_hour=price.usd if price.is_known else None,
        given=fields,
    )
    return predicted, others | derived


def _with_price(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields with the price of a GPU-hour as a number, if it is given otherwise."""
    given = Goodput.read(fields).usd_per_gpu_hour
    if not isinstance(given, str):
        return dict(fields)
    only = given.partition(PRICES_BY_SYSTEM)[0] if given.count(PRICES_BY_SYSTEM) == 1 else None
    system = fields.get("system") or only
    if system is None:
        raise InvalidSpecError(
            f"usd_per_gpu_hour = {given} is a price of systems, and none is named: give a number,"
            f" the price of one system such as h200_sxm{PRICES_BY_SYSTEM}2.5, or train"
        )
    price = gpu_price(resolve_system(str(system)).name, given)
    if not price.is_known:
        raise InvalidSpecError(price.note)
    return {**fields, "usd_per_gpu_hour": price.usd[0]}


def _of_checkpoints(step: TrainingStep, inputs: Goodput) -> dict[str, Any]:
    """Return stalls of checkpoints, and restarts with reading one; empty where times are unknown.

    Args:
        step: The step, as `train` answers it.
    """
    stall_s = step.results.get("checkpoint_stall_s")
    if stall_s is None:
        _require_checkpoints(inputs)
        return {}
    for name in ("checkpoint_write_s", "checkpoint_bytes_per_s"):
        if getattr(inputs, name) is not None:
            raise InvalidSpecError(
                f"{name} follows from checkpoint_bytes_per_s of train = {inputs.train}; leave one"
                " out"
            )
    read_s = step.results["checkpoint_read_s"]
    lag_s = step.results["checkpoint_save_s"] - stall_s
    if inputs.restart_s is None:  # of the strategy, or missing
        return {"checkpoint_write_s": stall_s}
    found = {"checkpoint_write_s": stall_s, "restart_s": inputs.restart_s + read_s}
    if inputs.fleet is not None:
        return found | {"checkpoint_lag_s": lag_s}
    # each interruption also loses the work that waits for storage
    return found | {"restart_s": found["restart_s"] + lag_s}


def _require_checkpoints(inputs: Goodput) -> None:
    """Refuse a job whose checkpoints take an unknown time."""
    ways = ("checkpoint_write_s", "checkpoint_bytes_per_s", "fleet")
    if all(getattr(inputs, name) is None for name in ways):
        raise InvalidSpecError(
            "the time to write a checkpoint is missing: set checkpoint_write_s or"
            f" checkpoint_bytes_per_s, here or, with asynchronous writes, in {inputs.train}"
        )


def _step_of(path: str) -> TrainingStep:
    """Return the training step that a file describes."""
    from perfatlas.scenario.training_steps import training_step

    table = read_toml(path)
    if is_graph(table.get("model")):
        raise UnsupportedError(
            f"train = {path}: {table['model']} is a graph of operators, and goodput counts tokens"
            " of language models; leave train out and set step_time_s, as train answers it"
        )
    try:
        return training_step(table)
    except InvalidSpecError as problem:
        raise InvalidSpecError(f"train = {path}: {problem}") from problem


def _power(step: TrainingStep) -> dict[str, float]:
    """Return the power of a GPU in steps and while the job waits, empty where it is not known."""
    power_w = step.results["power_w"]
    if power_w is None:
        return {}
    device = step.question.systems[0].device
    return {"power_w": power_w, "idle_power_w": board_energy(device).on_w}


def with_training(answer: Answer, predicted: PredictedStep | None) -> Answer:
    """Return an answer of goodput with the training it holds.

    Args:
        predicted: The step; None leaves the answer as it is.

    Source: derived: the job trains for the share `goodput` of its time, at the speed of the step.
    """
    if predicted is None:
        return answer
    step, goodput = predicted.step.results, _goodput(answer)
    gpus = step["gpus"]
    results: dict[str, Any] = dict(answer.results)
    for end in ENDS:
        share, mfu, rate = goodput[end], step[f"mfu{end}"], step[f"tokens_per_s_per_gpu{end}"]
        known = share is not None and mfu is not None
        results[f"training_mfu{end}"] = mfu
        results[f"effective_mfu{end}"] = share * mfu if known else None
        results[f"training_tokens_per_s{end}"] = share * rate * gpus if known else None
    if predicted.tokens is not None:
        results |= _to_tokens(results, predicted.tokens, gpus, predicted.usd_per_gpu_hour)
    jitter = step["waterfall"]["jitter"] / step["step_time_s"]
    note = (
        f"the step of {significant(step['step_time_s'], 4)} s is predicted; waiting for the slowest"
        " rank is"
        f" {jitter:.1%} of it and part of the MFU, and not counted again; stragglers that stay slow"
        " are those of the fleet"
    )
    notes = (note, *_checkpoint_notes(predicted.step))
    grounds = predicted.step.evidence()
    evidence = replace(
        answer.evidence,
        assumptions=(*answer.evidence.assumptions, *notes, *grounds.assumptions),
        sources=(*answer.evidence.sources, *grounds.sources),
    )
    given = predicted.in_scenario.items()
    as_given = {
        name: value for name, value in given if name in answer.scenario or value is not None
    }
    scenario = {**answer.scenario, **as_given}
    return replace(answer, results=results, evidence=evidence, scenario=scenario)


def _checkpoint_notes(step: TrainingStep) -> tuple[str, ...]:
    """Return what follows from predicted times of checkpoints."""
    results = step.results
    if "checkpoint_stall_s" not in results:
        return ()
    stall_s, save_s, read_s = (
        results[f"checkpoint_{name}_s"] for name in ("stall", "save", "read")
    )
    note = (
        f"a checkpoint stalls the job for {significant(stall_s, 4)} s, and storage has it after"
        f" {significant(save_s, 4)} s;"
        " an interruption before that loses the work since the checkpoint before, and no other"
        f" checkpoint begins; every restart reads one in {significant(read_s, 4)} s, beside"
        " restart_s"
    )
    return (note,)


def _goodput(answer: Answer) -> dict[str, float | None]:
    """Return goodput and the ends of its interval, by ending; simulations have statistics."""
    found: dict[str, float | None] = {}
    for end in ENDS:
        value = answer.results.get(f"goodput{end}")
        found[end] = value["mean"] if isinstance(value, dict) else value
    return found


def _to_tokens(
    results: Mapping[str, Any],
    tokens: float,
    gpus: int,
    usd_per_gpu_hour: tuple[float, float, float] | None,
) -> dict[str, Any]:
    """Return time, GPU-hours and cost of a token budget; the cost is that of all GPUs held."""
    found: dict[str, Any] = {}
    for end, other in zip(ENDS, ("", "_high", "_low"), strict=True):
        rate = results[f"training_tokens_per_s{other}"]
        found[f"time_to_tokens_s{end}"] = tokens / rate if rate else None
    seconds = found["time_to_tokens_s"]
    if seconds is not None:
        found["token_budget_gpu_hours"] = gpu_hours(gpus * seconds)
        if usd_per_gpu_hour is not None:
            held = results.get("gpus_held") or gpus
            for end, price in zip(ENDS, usd_per_gpu_hour, strict=True):
                held_s = found[f"time_to_tokens_s{end}"]
                cost = None if held_s is None else gpu_hours(held * held_s) * price
                found[f"usd_per_training_run{end}"] = cost
    return found
