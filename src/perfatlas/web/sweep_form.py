"""The form of a sweep: a question, names that vary and their values, as a study."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from perfatlas.files import format_toml
from perfatlas.quantities import InvalidSpecError, UsageError, repr_for_error
from perfatlas.studies.sweeps import is_override
from perfatlas.web.asking import set_once
from perfatlas.web.file_forms import SWEPT, VALUES_TEXT, sweep_fields
from perfatlas.web.questions import (
    SWITCHES,
    check_override,
    check_text,
    check_value,
    command_words,
    form_fields,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIED: Final = ("", "_2")  # endings of the fields of each axis
MAX_POINTS: Final = 20_000  # of a study that a client asks
RANGE: Final = re.compile(r"(\S+(?: \S+)?) to (\S+(?: \S+)?) in (\d{1,5})( log)? steps?")


def study_toml(values: Mapping[str, str]) -> str:
    """Return the study of a form as TOML, each value checked as that of a question is.

    Raises:
        UsageError: A field is missing or unknown.
        InvalidSpecError: A value is invalid, or there are too many points.

    Example:
        >>> from perfatlas.web.sweep_form import study_toml
        >>> print(study_toml({"verb": "kernel gemm", "question": "system=h200_sxm&m=64&n=4096",
        ...                   "vary": "k", "values": "1024 to 4096 in 3 log steps"}).strip())
        verb = "kernel gemm"
        <BLANKLINE>
        [scenario]
        system = "h200_sxm"
        m = "64"
        n = "4096"
        <BLANKLINE>
        [vary.k]
        from = "1024"
        to = "4096"
        steps = 3
        scale = "log"
    """
    for name, text in values.items():
        if name not in sweep_fields():
            raise UsageError(f"unknown field {repr_for_error(name)} of a sweep")
        check_text(name, text)
    values = {name: " ".join(text.split()) for name, text in values.items()}
    verb, names = values.get("verb", ""), [values.get(f"vary{end}", "") for end in VARIED]
    if values.get("study"):
        raise UsageError("a study has all that a sweep needs: leave the other fields empty")
    if verb not in SWEPT or not names[0]:
        raise UsageError("a sweep needs a study, or verb, question, vary and values")
    if names[0] == names[1]:
        raise UsageError(f"vary and vary_2 are both {names[0]}: vary another name")
    asked = set_once(parse_qsl(values.get("question", "").rpartition("?")[2]))
    command_words(verb, asked)
    if switches := [name for name in asked if name in SWITCHES.get(verb, {})]:
        raise UsageError(f"{switches[0]} cannot be set in a sweep; leave it out of the question")
    fields = form_fields(verb)
    scenario = {
        name: truth(name, text) if fields[name].type is bool else text
        for name, text in asked.items()
    }
    varied = {
        name: _read_values(verb, values, end)
        for name, end in zip(names, VARIED, strict=True)
        if name
    }
    points = 1
    for one in varied.values():
        points *= one["steps"] if isinstance(one, dict) else len(one)
    if points > MAX_POINTS:
        raise InvalidSpecError(
            f"{points:,} points; at most {MAX_POINTS:,} are answered here, and any number by"
            " `perfatlas sweep` on the command line"
        )
    study: dict[str, Any] = {"verb": verb}
    if objective := values.get("objective"):
        study["objective"] = objective
    kept = {name: value for name, value in scenario.items() if name not in varied}
    return format_toml({**study, "scenario": kept, "vary": varied})


def _read_values(verb: str, values: Mapping[str, str], end: str) -> dict[str, Any] | list[Any]:
    """Return the values of an axis as a study states them."""
    name, text = values[f"vary{end}"], values.get(f"values{end}", "")
    fields = form_fields(verb)
    field = fields.get(name)
    if field is None and not is_override(name):
        raise UsageError(f"vary{end} = {repr_for_error(name)} is no field of {verb}")
    found = RANGE.fullmatch(text)
    cells = [found[1], found[2]] if found else [part.strip() for part in text.split(",")]
    for cell in cells:
        if not cell:
            raise InvalidSpecError(
                f"values{end} = {repr_for_error(text)}: give values {VALUES_TEXT}"
            )
        if field is None:
            check_override(f"vary{end}", name, cell)
        elif field.type is not bool:
            check_value(field, cell, fields)
    if found:
        scale = {"scale": "log"} if found[4] else {}
        return {"from": found[1], "to": found[2], "steps": int(found[3]), **scale}
    is_bool = field is not None and field.type is bool
    return [truth(name, cell) if is_bool else cell for cell in cells]
