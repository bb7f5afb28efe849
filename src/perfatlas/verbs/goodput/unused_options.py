"""What a question of goodput would not read: refused, or remarked on where it is harmless."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.quantities import InvalidSpecError, counted
from perfatlas.verbs.goodput.fields import FleetGoodput, SimpleGoodput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from perfatlas.verbs.goodput.fields import SpareNodes, Stragglers
    from perfatlas.verbs.goodput.fleet_job import FleetJob


def says_nothing(schema: type[BaseModel], name: str, value: object) -> bool:
    """Return whether a value of a field is not given, or is what the field is without it.

    Args:
        schema: With the field.
        name: Of the field.
        value: As given, text of a table among it.

    Example:
        >>> from perfatlas.verbs.goodput.fields import FleetGoodput
        >>> from perfatlas.verbs.goodput.unused_options import says_nothing
        >>> [says_nothing(FleetGoodput, "more_spares", value) for value in ("30", "", None, 5)]
        [True, True, True, False]
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    default = schema.model_fields[name].default
    if isinstance(default, bool):
        return str(value).lower() == str(default).lower()
    if isinstance(default, int | float) and isinstance(value, str | int | float):
        try:
            return float(value) == default
        except ValueError:
            return False
    return bool(value == default)


def of_other_form(
    fields: Mapping[str, Any], other: type[BaseModel], own: type[BaseModel]
) -> tuple[dict[str, Any], list[str]]:
    """Return fields without those of the other form of goodput, and the names of those that count.

    A table of both forms has columns of both: a cell that is empty or the default says nothing.

    Args:
        fields: As given.
        other: Schema of the other form.
        own: Schema of the form that is asked.
    """
    foreign = [name for name in other.model_fields if name not in own.model_fields]
    rest = {name: value for name, value in fields.items() if name not in foreign}
    said = [n for n in foreign if n in fields and not says_nothing(other, n, fields[n])]
    return rest, said


def refuse_unread_simple(asked: SimpleGoodput) -> None:
    """Refuse options of the simple form that would change nothing.

    Args:
        asked: The fields.

    Raises:
        InvalidSpecError: An option would not be read; the message says what it belongs to.
    """
    if asked.usd_per_gpu_hour is not None and asked.gpus is None:
        raise InvalidSpecError(
            f"usd_per_gpu_hour = {asked.usd_per_gpu_hour:g} is the price of GPUs, and no number of"
            " them is given; give gpus, or leave usd_per_gpu_hour out"
        )
    if asked.repair_s is not None and asked.spares is None:
        raise InvalidSpecError(
            "repair_s is how long a node is out: give spares, how many there are"
        )
    of_nodes = asked.spares is not None or asked.failure_shape != 1.0
    if asked.gpus_per_node != _default("gpus_per_node") and asked.mtti_s and not of_nodes:
        raise InvalidSpecError(
            f"gpus_per_node = {asked.gpus_per_node} is not read: mtti_s is of the whole job; give"
            " node_mtbf_s in its place, or leave gpus_per_node out"
        )


def idle_simple(asked: SimpleGoodput) -> list[str]:
    """Return what is asked of a simulation where a closed form answers, in sentences.

    Args:
        asked: The fields, of a question that a closed form answers.
    """
    given = {"half_width": asked.half_width, "seed": asked.seed}
    return [
        f"{name} = {value:g} changes nothing here: it is of a simulation, and a closed form answers"
        for name, value in given.items()
        if value != _default(name)
    ]


def _default(name: str) -> Any:  # noqa: ANN401 - of any field
    return SimpleGoodput.model_fields[name].default


def refuse_unread_fleet(asked: FleetGoodput, ready: FleetJob, *, given_bytes: bool) -> None:
    """Refuse options of a job on a fleet that would change nothing.

    Args:
        asked: The fields.
        ready: The job.
        given_bytes: Bytes of a checkpoint are given, and no speed for them.

    Raises:
        InvalidSpecError: An option would not be read; the message says what it belongs to.
    """
    _refuse_of_what_if(asked, ready)
    if asked.work_s is not None and not _is_default(asked, "duration_s"):
        raise InvalidSpecError(
            f"duration_s = {asked.duration_s:g} is not read: with work_s = {asked.work_s:g} the job"
            " runs until the work is done; leave one of the two out"
        )
    if given_bytes and not ready.reads_bytes:
        raise InvalidSpecError(
            "checkpoint_bytes are not read: how long a checkpoint takes is told as a time; give"
            " checkpoint_bytes_per_s (or the bandwidths of a [[strategy]] table) in place of that,"
            " or leave checkpoint_bytes out"
        )


def _refuse_of_what_if(asked: FleetGoodput, ready: FleetJob) -> None:
    """Refuse what says how to change the job where nothing changes it, or not in this way."""
    if not asked.what_if:
        told = {"more_spares": "spares", "verify_s": "verification"}
        for name, what in told.items():
            if not _is_default(asked, name):
                raise InvalidSpecError(
                    f"{name} = {getattr(asked, name):g} is the {what} that what_if tries: give"
                    f" what_if, or leave {name} out"
                    + ("; verify of a [[strategy]] table is in use" if name == "verify_s" else "")
                )
        return
    if asked.replica_gpus and not asked.fewest_gpus and ready.strategy.shrink is not None:
        raise InvalidSpecError(
            f"replica_gpus = {asked.replica_gpus} is not read: strategy {ready.strategy.name!r}"
            " says itself what the job gives up; give fewest_gpus too, in place of that, or leave"
            " replica_gpus out"
        )
    if asked.verify_s is None:
        return
    if ready.strategy.verify_s:
        raise InvalidSpecError(
            f"verify_s = {asked.verify_s:g} is not read: strategy {ready.strategy.name!r} verifies"
            f" in {ready.strategy.verify_s:g} s already; leave verify_s out"
        )
    if all(cause.effect != "corrupts" for cause in ready.job.fleet.causes):
        raise InvalidSpecError(
            f"verify_s = {asked.verify_s:g} finds silent errors, and no cause of this fleet has"
            ' effect = "corrupts"; leave verify_s out'
        )


def _is_default(asked: FleetGoodput, name: str) -> bool:
    return bool(getattr(asked, name) == FleetGoodput.model_fields[name].default)


def idle_fleet(asked: FleetGoodput, ready: FleetJob) -> list[str]:
    """Return what is asked, is legitimate and changes nothing for this job, in sentences.

    Args:
        asked: The fields.
        ready: The job.
    """
    said = []
    spares = ready.strategy.spares.count or 0
    if not spares and asked.spare_kind != "cold" and not asked.what_if:
        said.append(f"spare_kind = {asked.spare_kind} changes nothing here: no spare stands by")
    idle = ready.job.fleet.units - ready.job.units - spares
    if asked.fleet_units is not None and idle > 0:
        said.append(
            f"{counted(idle, 'unit')} of fleet_units = {asked.fleet_units:,} neither work nor stand"
            " by for this job and change nothing: more gpus or more spares use them"
        )
    return said


def idle_spares(asked: SpareNodes, spares: int) -> list[str]:
    """Return what changes nothing for nodes and spares, in sentences.

    Args:
        asked: The fields.
        spares: Given or found.
    """
    if asked.warm and not spares:
        return ["warm changes nothing here: no spare stands by that could fail"]
    return []


def idle_stragglers(asked: Stragglers) -> list[str]:
    """Return what changes nothing for GPUs that wait for the slowest, in sentences.

    Args:
        asked: The fields.
    """
    if asked.gpus == 1:
        return ["1 GPU waits for no other: give gpus, how many wait for one another"]
    if asked.synchronisations > 1 and not asked.transient_cv:
        idle = (
            f"synchronisations = {asked.synchronisations:,} changes nothing here: what a GPU that"
            " is always slow loses does not depend on how often it is waited for; transient_cv"
            " does"
        )
        return [idle]
    return []
