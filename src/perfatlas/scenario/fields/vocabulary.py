"""The vocabulary of a scenario: the same names as flags, TOML keys, table columns and arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from perfatlas.quantities import InvalidSpecError, did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_core import ErrorDetails

MOST_DRAFTS: Final = 32
_BOUNDS: Final = {
    "gt": ("greater", "expected more than {}"),
    "ge": ("greater", "expected {} or more"),
    "lt": ("less", "expected less than {}"),
    "le": ("less", "expected {} or less"),
    "max_length": ("string", "expected {} characters at most"),
}
_KINDS: Final = {
    "int": "expected a whole number",
    "float": "expected a number",
    "finite": "expected a finite number",
    "string": "expected text",
    "bool": "expected true or false",
    "dict": "expected a table",
}
MAX_COUNT: Final = 10**9  # no cluster, batch or context is larger; far from overflow


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("expected a whole number, not true or false")  # noqa: TRY004 - pydantic's
    return value


Count = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=1, le=MAX_COUNT)]
Tokens = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=0, le=MAX_COUNT)]

STEEPEST: Final = 10.0  # exponent of an expert load nobody has

Mode = Literal["static", "aggregated", "disaggregated"]
Method = Literal["auto", "formula", "simulate"]


def check_distribution(text: str) -> str:
    """Return an expert-load distribution as given.

    Raises:
        InvalidSpecError: Not "uniform", "balanced" or "power_law_<exponent>", exponent positive.
    """
    exponent = text.removeprefix("power_law_")
    if text in ("uniform", "balanced"):
        return text
    try:
        good = text.startswith("power_law_") and 0.0 < float(exponent) < STEEPEST
    except ValueError:
        good = False
    if not good:
        raise InvalidSpecError(
            f"expert distribution {shown(text)}: use uniform, balanced or power_law_<exponent>,"
            " such as power_law_1.2"
        )
    return text


class Scenario(BaseModel):
    """One question: a model on a system, a plan, an engine and a load.

    Every field is a name of the vocabulary; None means "derive it".
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, defer_build=True
    )

    model: Annotated[str, Field(min_length=1, max_length=4096)]
    system: Annotated[str, Field(min_length=1, max_length=4096)]
    engine: str = "vllm"
    tier: Literal["auto", "bound", "physics", "measured"] = "auto"
    silicon_version: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    mode: Mode = "static"
    method: Method = "auto"

    gpus: Count | None = None
    tp: Count | None = None
    pp: Count = 1
    cp: Count = 1
    attention_dp: Count = 1
    ep: Count | None = None
    moe_tp: Count | None = None
    dp: Count | None = None

    format: str | None = None
    gemm_format: str | None = None
    moe_format: str | None = None
    kv_format: str | None = None
    attention_format: str | None = None

    batch: Count | None = None
    concurrency: Count | None = None
    isl: Count = 1024
    osl: Count = 128
    prefix: Tokens = 0

    max_num_seqs: Count | None = None
    max_num_batched_tokens: Count | None = None
    block_size: Count | None = None
    gpu_memory_utilization: Annotated[float, Field(ge=0.01, le=1)] | None = None
    kv_blocks: Count | None = None
    stream_interval: Count = 1
    clock_ratio: Annotated[float, Field(ge=0.05, le=2)] = 1.0
    expert_distribution: Annotated[str, AfterValidator(check_distribution)] = "uniform"

    speculative_depth: Annotated[
        int, BeforeValidator(_no_truth_value), Field(ge=0, le=MOST_DRAFTS)
    ] = 0
    speculative_acceptance: Annotated[float, Field(ge=0.0, le=1.0)] | None = None

    prefill_system: str | None = None
    decode_system: str | None = None
    prefill_tp: Count | None = None
    prefill_pp: Count | None = None
    prefill_cp: Count | None = None
    prefill_attention_dp: Count | None = None
    prefill_ep: Count | None = None
    prefill_moe_tp: Count | None = None
    prefill_workers: Count = 1
    prefill_batch: Count = 1
    decode_tp: Count | None = None
    decode_pp: Count | None = None
    decode_attention_dp: Count | None = None
    decode_ep: Count | None = None
    decode_moe_tp: Count | None = None
    decode_workers: Count = 1
    decode_batch: Count | None = None


FIELD_NAMES: tuple[str, ...] = tuple(Scenario.model_fields)


def parse_scenario(fields: Mapping[str, Any]) -> Scenario:
    """Return the scenario of named fields; None and empty text count as not given.

    Raises:
        InvalidSpecError: A name is unknown or a value breaks its rule; all of them are named.

    Example:
        >>> from perfatlas.scenario.fields.vocabulary import parse_scenario
        >>> parse_scenario({"model": "openai/gpt-oss-20b", "system": "h100_sxm", "tp": "2"}).tp
        2
    """
    given = {
        name: value
        for name, value in fields.items()
        if value is not None and not (isinstance(value, str) and not value.strip())
    }
    if given.get("mode") == "disaggregated" and "system" not in given:
        pools = [given[name] for name in ("prefill_system", "decode_system") if name in given]
        if len(pools) == 2:
            given["system"] = pools[0]
    try:
        return Scenario.model_validate(given)
    except ValidationError as error:
        raise InvalidSpecError(sentences(error, FIELD_NAMES)) from None


def sentences(error: ValidationError, names: Sequence[str]) -> str:
    """Return what is wrong with named fields, for people.

    Args:
        error: What the schema found.
        names: Every name that is known.
    """
    parts = []
    for problem in error.errors(include_url=False):
        name = ".".join(str(p) for p in problem["loc"])
        if problem["type"] == "extra_forbidden":
            parts.append(f"unknown field {name!r}{did_you_mean(name, names)}")
        elif problem["type"] == "missing":
            parts.append(f"{name} is required")
        else:
            parts.append(f"{name} = {shown(problem['input'])}: {_rule(problem)}")
    return "; ".join(parts)


def _rule(problem: ErrorDetails) -> str:
    """Return what a value is expected to be, and the nearest word where it is one of several.

    Args:
        problem: As the schema found it.
    """
    bounds = problem.get("ctx", {})
    if problem["type"] == "literal_error":
        value, words = problem["input"], re.findall(r"'([^']*)'", str(bounds["expected"]))
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        return f"expected one of {', '.join(words)}{hint}"
    if problem["type"] == "value_error":
        return str(bounds["error"])
    for name, template in _BOUNDS.items():
        if name in bounds and problem["type"].startswith(template[0]):
            return template[1].format(_plain(bounds[name]))
    return _KINDS.get(problem["type"].split("_")[0], problem["msg"])


def _plain(bound: float) -> str:
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
