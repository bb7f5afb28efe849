"""User input, validated against the table of fields."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from perfatlas import files
from perfatlas.hardware import slice_chips
from perfatlas.quantities import InvalidSpecError, did_you_mean, repr_for_error
from perfatlas.vocabulary.fields import FeedForward, canonical_name, fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_core import ErrorDetails

    from perfatlas.vocabulary.fields import Field


_BOUNDS: Final = {
    "gt": ("greater", "must be greater than {}"),
    "ge": ("greater", "must be at least {}"),
    "lt": ("less", "must be less than {}"),
    "le": ("less", "must be at most {}"),
    "max_length": ("string", "must have at most {} characters"),
}
_KINDS: Final = {
    "int": "expected an integer",
    "float": "expected a number",
    "finite": "expected a finite number",
    "string": "expected text",
    "bool": "expected true or false",
    "dict": "expected a table",
}
# fields that state the GPUs, or divide a deployment, so that the name of a slice does not
GPUS_STATED: Final = frozenset(
    (
        *("gpus", "max_gpus", "nodes", "dp", "prefill_workers", "decode_workers"),
        "feed_forward_system",
    )
)


def input_rows(given: Any, name: str, wanted: str, most: int) -> tuple[Sequence[Any], str]:  # noqa: ANN401 - whatever a person wrote
    """Return unchecked rows, and a description of their origin.

    Args:
        given: A list, JSON text that starts with [ or {, or a path to CSV, Parquet or JSON Lines.
        wanted: Description of the expected value, such as "a list of events".
    """
    where, rows = name, given
    if isinstance(given, str) and given.lstrip().startswith(("[", "{")):
        try:
            rows = json.loads(given, object_pairs_hook=_each_once)
        except RecursionError:
            raise InvalidSpecError(f"{name} is JSON nested too deeply to be read") from None
        except ValueError as problem:  # including a number with too many digits
            raise InvalidSpecError(f"{name} is not JSON: {problem}") from None
    elif isinstance(given, str):
        where = given
        rows = _rows_of(given)
    if not isinstance(rows, (list, tuple)) or len(rows) > most:
        raise InvalidSpecError(
            f"{name} = {repr_for_error(str(given))}: expected a file, or {wanted}"
        )
    return rows, where


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, refused if a key is repeated."""
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"{twice!r} is set twice")
    return found


def _rows_of(path: str) -> Sequence[Any]:
    """Return the rows of a file, without empty cells."""
    table = files.read_table(path)
    columns = {name: table.cells(name) for name in table.columns}
    return [
        {name: cells[index] for name, cells in columns.items() if cells[index] not in (None, "")}
        for index in range(table.rows)
    ]


class InputFields(BaseModel):
    """Input fields of a verb; subclasses add groups of the table of fields."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, str_strip_whitespace=True, defer_build=True
    )

    @property
    def values(self) -> Mapping[str, Any]:
        """All fields with their values, by name."""
        return vars(self)  # without the copy that dict(self) makes

    @classmethod
    def read(cls, fields: Mapping[str, Any], others: Sequence[str] = ()) -> Self:
        """Return the typed fields; None and empty text count as unset.

        A system that names a slice, such as v5p-128, states the GPUs too.

        Args:
            others: Further names to suggest for a misspelt one.

        Raises:
            InvalidSpecError: A name is unknown or missing, or a value is invalid; all problems are
                listed.
        """
        given = {
            name: value
            for name, value in fields.items()
            if value is not None and not (isinstance(value, str) and not value.strip())
        }
        given |= {
            name: field.folded(given[name])
            for name, field in _with_choices(cls).items()
            if name in given
        }
        if "gpus" in cls.model_fields and given.keys().isdisjoint(GPUS_STATED):
            given |= {"gpus": chips} if (chips := slice_chips(given.get("system"))) else {}
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise InvalidSpecError(sentences(error, (*cls.model_fields, *others))) from None


@cache
def _with_choices(schema: type[InputFields]) -> dict[str, Field]:
    return {name: field for name, field in fields_of(schema).items() if field.choices}


def sentences(error: ValidationError, names: Sequence[str]) -> str:
    """Return the validation problems as text."""
    parts = []
    for problem in error.errors(include_url=False):
        name = ".".join(str(p) for p in problem["loc"])
        if problem["type"] == "extra_forbidden" and name in fields_of(FeedForward):
            parts.append(
                f"{name} applies only to compare, estimate and simulate: plans whose layers are"
                " split over two machines are not searched"
            )
        elif problem["type"] == "extra_forbidden":
            ours = canonical_name(name, names)
            hint = f"; perfatlas calls it {ours!r}" if ours else did_you_mean(name, names)
            parts.append(f"unknown field {name!r}{hint}")
        elif problem["type"] == "missing":
            parts.append(f"{name} is required")
        else:
            given = f"{name} = {repr_for_error(problem['input'])}"
            parts.append(f"{given}: {_rule(problem)}")
    return "; ".join(parts)


def _rule(problem: ErrorDetails) -> str:
    """Return the expected value, with a suggestion for a misspelt choice."""
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
