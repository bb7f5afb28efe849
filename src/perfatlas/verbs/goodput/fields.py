"""The vocabulary of goodput: the same names as flags, TOML keys, table columns and arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import sentences
from perfatlas.vocabulary.fields import Count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HOUR_S: Final = 3600.0
DAY_S: Final = 24.0 * HOUR_S
MONTH_S: Final = 30.0 * DAY_S


def _a_number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a number, not true or false")  # noqa: TRY004 - pydantic's
    return value


_LONGEST_S: Final = 1e12
_SHORTEST_S: Final = 1e-6
MOST_MORE_SPARES: Final = 1_000_000
Number = BeforeValidator(_a_number)
Duration = Annotated[float, Number, Field(ge=_SHORTEST_S, le=_LONGEST_S, allow_inf_nan=False)]
Pause = Annotated[float, Number, Field(ge=0.0, le=_LONGEST_S, allow_inf_nan=False)]
Share = Annotated[float, Number, Field(gt=0.0, le=1.0, allow_inf_nan=False)]
Level = Annotated[float, Number, Field(gt=0.0, lt=1.0, allow_inf_nan=False)]
Whole = Annotated[int, Number, Field(ge=0, le=10**9)]
Price = Annotated[float, Number, Field(ge=0.0, le=1e9, allow_inf_nan=False)]

Method = Literal["auto", "exact", "simulate", "young", "daly", "saxena", "meta"]


class Resilience(BaseModel):
    """What both forms of goodput read: how a job lives with failures, and how long it is watched.

    Every field is a name of the vocabulary; None means "derive it". Times in seconds.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, defer_build=True
    )

    gpus: Count | None = None
    checkpoint_interval_s: Duration | None = None
    spares: Whole | None = None
    duration_s: Duration = MONTH_S
    usd_per_gpu_hour: Price | None = None
    half_width: Level = 0.002
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0


class SimpleGoodput(Resilience):
    """A job that one memoryless kind of failure interrupts, or nodes that age."""

    checkpoint_write_s: Pause
    restart_s: Pause
    mtti_s: Duration | None = None
    node_mtbf_s: Duration | None = None
    failure_rate: str | None = None
    failures_seen: Count | None = None
    gpus_per_node: Count = 8
    failure_shape: Annotated[float, Field(ge=0.2, le=20.0)] = 1.0
    detection_s: Pause = 0.0
    repair_s: Duration | None = None
    method: Method = "auto"


class FleetGoodput(Resilience):
    """A job on a fleet of a file or of the catalog, always simulated."""

    fleet: Annotated[str, Field(min_length=1, max_length=4096)]
    fleet_units: Count | None = None
    strategy: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    strategy_file: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    checkpoint_write_s: Pause | None = None
    restart_s: Pause | None = None
    detection_s: Pause | None = None
    checkpoint_lag_s: Pause = 0.0
    spare_kind: Literal["cold", "warm", "hot"] = "cold"
    spare_start_s: Pause = 0.0
    replica_gpus: Count | None = None
    fewest_gpus: Count | None = None
    work_s: Duration | None = None
    finish_by_s: Duration | None = None
    mfu: Share | None = None
    scheduling: Share | None = None
    what_if: bool = False
    more_spares: Annotated[Count, Field(le=MOST_MORE_SPARES)] = 30
    verify_s: Duration | None = None


class Step(BaseModel):
    """A step of training, as measured, and the state it leaves to save; all may be missing."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, defer_build=True
    )

    model: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    system: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    format: Annotated[str, Field(min_length=1, max_length=64)] = "bf16"
    step_time_s: Duration | None = None
    tokens_per_step: Annotated[int, Number, Field(ge=1, le=10**12)] | None = None
    checkpoint_bytes: Annotated[float, Number, Field(gt=0.0, le=1e18)] | None = None
    checkpoint_bytes_per_s: Annotated[float, Number, Field(gt=0.0, le=1e18)] | None = None


class SpareNodes(BaseModel):
    """Nodes of a job, nodes beside them, and how often a job waits."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, defer_build=True
    )

    nodes: Count | None = None
    spares: Annotated[int, Number, Field(ge=0, le=100_000)] | None = None
    target: Level | None = None
    node_mtbf_s: Duration | None = None
    repair_s: Duration | None = None
    fleet: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    gpus: Count | None = None
    crews: Count | None = None
    warm: bool = False


class Domains(BaseModel):
    """GPUs of which one that is out takes others with it, and domains that do with some out."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, defer_build=True
    )

    domain_size: Annotated[Count, Field(le=100_000)]
    needed: Count | None = None
    unavailability: Annotated[float, Number, Field(ge=0.0, lt=1.0, allow_inf_nan=False)] | None = (
        None
    )
    gpu_mtbf_s: Duration | None = None
    repair_s: Duration | None = None
    gpus: Count | None = None
    spares: Whole | None = None


class Stragglers(BaseModel):
    """GPUs that wait for the slowest of them."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, defer_build=True
    )

    gpus: Count
    persistent_cv: Annotated[float, Number, Field(ge=0.0, le=1.0, allow_inf_nan=False)] = 0.0
    transient_cv: Annotated[float, Number, Field(ge=0.0, le=1.0, allow_inf_nan=False)] = 0.0
    synchronisations: Count = 1
    step_time_s: Duration | None = None


SIMPLE_NAMES: Final = tuple(SimpleGoodput.model_fields)
FLEET_NAMES: Final = tuple(FleetGoodput.model_fields)
STEP_NAMES: Final = tuple(Step.model_fields)
GOODPUT_NAMES: Final = tuple(dict.fromkeys((*SIMPLE_NAMES, *FLEET_NAMES, *STEP_NAMES)))
SPARE_NAMES: Final = tuple(SpareNodes.model_fields)
DOMAIN_NAMES: Final = tuple(Domains.model_fields)
STRAGGLER_NAMES: Final = tuple(Stragglers.model_fields)

_Fields = TypeVar("_Fields", bound=BaseModel)


def parsed(schema: type[_Fields], fields: Mapping[str, Any], others: Sequence[str] = ()) -> _Fields:
    """Return named fields as a schema; None and empty text count as not given.

    Args:
        schema: One of this module.
        fields: As given.
        others: Further names a misspelt one may have meant.

    Raises:
        InvalidSpecError: A name is unknown or missing or a value breaks its rule; all are named.

    Example:
        >>> from perfatlas.verbs.goodput.fields import SpareNodes
        >>> from perfatlas.verbs.goodput import parsed
        >>> parsed(SpareNodes, {"nodes": "8", "node_mtbf_s": 1e6, "repair_s": 3600}).nodes
        8
    """
    given = {
        name: value
        for name, value in fields.items()
        if value is not None and not (isinstance(value, str) and not value.strip())
    }
    try:
        return schema.model_validate(given)
    except ValidationError as error:
        names = (*schema.model_fields, *others)
        raise InvalidSpecError(sentences(error, names)) from None
