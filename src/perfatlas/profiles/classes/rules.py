"""Rules that give each kernel a class, by its name and by the operator that launched it.

Shape legend: N activities.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfatlas.files import read_toml, shipped_table
from perfatlas.profiles.events import COPY, NO_INDEX
from perfatlas.quantities import InvalidSpecError, did_you_mean, printable, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from perfatlas.profiles.events import Profile

CLASSES: Final = (
    *("gemm", "attention", "moe", "norm", "elementwise", "communication", "copy", "other"),
)
COMMUNICATION, COPIES, _OTHER = (CLASSES.index(text) for text in ("communication", "copy", "other"))
_DATA: Final = "data/profiles/classes.toml"
MAX_NAME: Final = 400  # characters of a name that rules see: template arguments say nothing


class Rule(NamedTuple):
    """A rule."""

    code: int  # Index of the class in `CLASSES`
    kernel: re.Pattern[str] | None  # Searched in the name of the kernel; None matches all
    operator: re.Pattern[str] | None  # Searched in the name of the operator; None matches all

    def matches(self, kernel: str, operator: str) -> bool:
        """Return whether the rule holds for a kernel.

        Args:
            operator: Name of the operator that launched it, "" if unknown.
        """
        if self.kernel is not None and self.kernel.search(kernel) is None:
            return False
        return self.operator is None or self.operator.search(operator) is not None


@cache
def _shipped() -> tuple[Rule, ...]:
    return _rules(shipped_table(_DATA), _DATA)


def read_rules(path: str | Path | None = None) -> tuple[Rule, ...]:
    """Return the rules of a user followed by the shipped ones.

    Args:
        path: TOML file of [[rule]] tables with `class` and `kernel`, `operator` or both.

    Raises:
        InvalidSpecError: The file cannot be read, or a rule is invalid.
    """
    user_rules = () if path is None else _rules(read_toml(path), str(path))
    return (*user_rules, *_shipped())


def _rules(tables: dict[str, Any], path: str) -> tuple[Rule, ...]:
    rules = tables.get("rule")
    if not isinstance(rules, list) or set(tables) != {"rule"}:
        raise InvalidSpecError(
            f"rules {printable(path)!r} must have [[rule]] tables and nothing else; for example"
            " class = \"gemm\" and kernel = 'my_gemm'"
        )
    return tuple(_rule(rule, f"rule {number} of {path}") for number, rule in enumerate(rules, 1))


def _rule(table: object, where: str) -> Rule:
    if not isinstance(table, dict) or not {"class"} < set(table) <= {"class", "kernel", "operator"}:
        raise InvalidSpecError(f"{where} needs class, and kernel, operator or both")
    if table["class"] not in CLASSES:
        hint = did_you_mean(str(table["class"]), CLASSES)
        raise InvalidSpecError(
            f"{where}: class = {repr_for_error(table['class'])} is not one of"
            f" {', '.join(CLASSES)}{hint}"
        )
    try:
        patterns = [
            re.compile(table[key], re.IGNORECASE) if key in table else None
            for key in ("kernel", "operator")
        ]
    except (re.error, TypeError) as error:
        raise InvalidSpecError(f"{where} is no regular expression: {error}") from error
    return Rule(CLASSES.index(table["class"]), *patterns)


def class_codes(profile: Profile, rules: Sequence[Rule]) -> NDArray[np.int64]:
    """Return the class of each activity, as its index in `CLASSES` (N).

    Args:
        rules: The first one that matches decides.
    """
    activities = profile.activities
    pairs = np.stack([activities.name_N, activities.call_N, activities.kind_N], axis=1)
    unique, inverse = np.unique(pairs, axis=0, return_inverse=True)
    codes = [_code(profile, row, rules) for row in unique.tolist()]
    return np.array(codes, np.int64)[inverse.ravel()] if codes else np.zeros(0, np.int64)


def _code(profile: Profile, row: Sequence[int], rules: Sequence[Rule]) -> int:
    name, call, kind = row
    if kind == COPY:
        return COPIES
    kernel = profile.names[name][:MAX_NAME]
    operator = "" if call == NO_INDEX else profile.calls[call].name[:MAX_NAME]
    return next((rule.code for rule in rules if rule.matches(kernel, operator)), _OTHER)
