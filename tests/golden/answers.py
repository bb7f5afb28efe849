"""The recorded answers, and their comparison with current ones."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import lzma
import math
import platform
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from perfatlas.vocabulary.metrics import HIGH_ENDING, LOW_ENDING, METRICS, find_metric
from tests.golden.flatten import DIGEST, Scalar
from tests.golden.pool import Answer
from tests.golden.question import FOLDER

ANSWERS: Final = FOLDER / "answers.jsonl.xz"
KEY_MAP: Final = FOLDER / "key_map.toml"
PACKAGES: Final = ("numpy", "scipy", "numba", "llvmlite")
# tolerance of statistics of simulations with another tie-breaking
STATISTICS: Final = (".mean", ".p50", "_per_s", "requests_completed", "makespan_s")
REL_TOL: Final = 0.02
MAX_RATIO: Final = 2.0  # of numbers that are others by intent
ITERATED: Final = 1e-3  # likewise, of fits whose iterations end at another place
TOLERANCE: Final = 1e-9  # relative, of the sample in tests where machine or packages differ
PLACE: Final = re.compile(r"\[\d+\]|~\d+")
NOTHING: Final = object()
USAGE: Final = 2  # exit code of a wrong flag value
INVALID: Final = 3  # exit code of an invalid scenario


def environment() -> dict[str, Any]:
    """Return the environment that may affect the last digit of an answer."""
    features = importlib.import_module("numpy._core._multiarray_umath").__cpu_features__
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "packages": versions,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "libc": " ".join(platform.libc_ver()),
        "cpu_features": sorted(name for name, there in features.items() if there),
    }


@dataclass(frozen=True, kw_only=True)
class Golden:
    """The recorded answers, with their commit and machine."""

    commit: str
    environment: dict[str, Any]
    answers: dict[str, Answer]


def read_answers(path: Path = ANSWERS) -> Golden:
    """Return the recorded answers.

    Args:
        path: JSON Lines compressed by xz, the header first.
    """
    head, *rows = lzma.decompress(path.read_bytes()).decode().splitlines()
    header = json.loads(head)
    answers: dict[str, Answer] = dict(map(json.loads, rows))
    return Golden(commit=header["commit"], environment=header["environment"], answers=answers)


def write_answers(golden: Golden, path: Path = ANSWERS) -> None:
    """Write answers; the same answers give the same bytes.

    Args:
        path: JSON Lines compressed by xz.
    """
    header = {"commit": golden.commit, "environment": golden.environment}
    rows: list[Any] = [header, *golden.answers.items()]
    text = "".join(json.dumps(row, sort_keys=isinstance(row, dict)) + "\n" for row in rows)
    path.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


@dataclass(frozen=True, kw_only=True)
class KeyMap:
    """Reviewed changes of keys since the answers were recorded.

    Keys are those of a whole answer without list indices: `breakdown[].time_s`.

    Attributes:
        renamed: Old key -> new key; a prefix that ends in a dot, or in `[]`, renames all below it.
        dropped: Old key (or prefix) -> why it was removed.
        added: New key (or prefix) -> why it was added.
        statistical: Question -> why it is compared by statistics.
        iterated: Question -> why its numbers depend on the last digits of a fit, so that they are
            compared to `ITERATED` if a tolerance is given.
        refused: Question -> why it is rejected now (exit code 2 or 3).
        changed: Question -> why its answer is another one by intent; only its exit code is
            compared.
        intervals: Start of questions -> why the limits of their intervals are other ones; their
            keys are compared, their numbers not.
        revalued: Metric, or last part of keys such as `power_w_low` -> why its numbers are others
            in any answer; each is still a number inside its interval, within
            `MAX_RATIO` of the recorded one; what had no value may have one.
        new_metrics: Declared metrics that no recorded answer has: they may be answered now.
    """

    renamed: dict[str, str] = field(default_factory=dict)
    dropped: dict[str, str] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)
    statistical: dict[str, str] = field(default_factory=dict)
    iterated: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    changed: dict[str, str] = field(default_factory=dict)
    intervals: dict[str, str] = field(default_factory=dict)
    revalued: dict[str, str] = field(default_factory=dict)
    new_metrics: frozenset[str] = frozenset()


def read_key_map(recorded: Mapping[str, Answer] | None = None) -> KeyMap:
    """Return the reviewed map of keys, and the metrics that were declared since.

    Args:
        recorded: The recorded answers by question.

    Raises:
        ValueError: A table is unknown.
    """
    tables = tomllib.loads(KEY_MAP.read_text("utf-8"))
    unknown = set(tables) - set(KeyMap.__dataclass_fields__)
    if unknown:
        raise ValueError(f"{KEY_MAP}: unknown tables {sorted(unknown)}")
    return KeyMap(**tables, new_metrics=metrics_since(recorded or {}) if recorded else frozenset())


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A key with an unexpected value; `NOTHING` is a missing key."""

    question: str
    key: str
    expected: object
    found: object

    def __str__(self) -> str:
        """Return one line."""
        expected, found = (
            "absent" if value is NOTHING else repr(value) for value in (self.expected, self.found)
        )
        return f"{self.question}: {self.key}: expected {expected}, got {found}"


def differences(
    question: str,
    expected: Mapping[str, Scalar],
    found: Mapping[str, Scalar],
    *,
    keys: KeyMap,
    tolerance: float,
) -> Iterator[Difference]:
    """Yield the differences between two answers.

    Args:
        question: Name of the question.
        expected: The recorded answer.
        found: The current answer.
        keys: Reviewed changes of keys.
        tolerance: Relative tolerance of numbers; 0 compares every answer to its last digit.
    """
    wanted = dict(_mapped(expected, keys))
    if question in keys.refused:
        if found.get("exit") not in (USAGE, INVALID):
            yield Difference(
                question=question, key="exit", expected=INVALID, found=found.get("exit")
            )
        return
    if question in keys.changed:
        wanted = {key: value for key, value in wanted.items() if key.endswith("exit")}
        found = {key: value for key, value in found.items() if key in wanted}
    by_statistics = question in keys.statistical
    limits = question.startswith(tuple(keys.intervals))
    for key, value in wanted.items():
        other = found.get(key, NOTHING)
        free = (limits and is_limit(key)) or (tolerance and key.endswith(DIGEST))
        told = {*_metrics_of(key), PLACE.sub("", key).rpartition(".")[2]}
        if not keys.revalued.keys().isdisjoint(told):
            same = _revalued(key, value, found)
        elif free and other is not NOTHING:
            same = True
        elif by_statistics:
            same = _near(key, value, other)
        else:
            iterated = tolerance and question in keys.iterated
            same = _same(value, other, ITERATED if iterated else tolerance)
        if not same:
            yield Difference(question=question, key=key, expected=value, found=other)
    for key, value in found.items():
        if key not in wanted and not by_statistics and not _may_be_added(key, keys):
            yield Difference(question=question, key=key, expected=NOTHING, found=value)


def is_limit(key: str) -> bool:
    """Return whether a key is a limit of an interval.

    Args:
        key: The key of an answer.
    """
    return any(part.endswith((LOW_ENDING, HIGH_ENDING)) for part in PLACE.sub("", key).split("."))


def _may_be_added(key: str, keys: KeyMap) -> bool:
    return _rule(key, keys.added) is not None or not keys.new_metrics.isdisjoint(_metrics_of(key))


def metrics_since(answers: Mapping[str, Answer]) -> frozenset[str]:
    """Return the declared metrics that no recorded answer has.

    Args:
        answers: The recorded answers by question.
    """
    told = {PLACE.sub("", key.rpartition("/")[2]) for one in answers.values() for key in one}
    return frozenset(METRICS) - {name for key in told for name in _metrics_of(key)}


@cache
def _columns() -> dict[str, str]:
    """Return metric names by the names of their columns in a table."""
    ends = (
        "",
        LOW_ENDING,
        HIGH_ENDING,
        *(f"_{name}" for one in METRICS.values() for name in one.statistics),
    )
    return {
        f"{name.replace('.', '_')}{end}": name for name in METRICS for end in dict.fromkeys(ends)
    }


def _metrics_of(key: str) -> Iterator[str]:
    """Yield the metrics that a key of results, or a column of a written table, tells of."""
    where, *parts = PLACE.sub("", key.rpartition("/")[2]).split(".")
    if where == "results":
        for holder, part in zip(("", *parts), parts, strict=False):
            if metric := find_metric(part, holder):
                yield metric.name
    elif where.startswith("file:"):
        yield from (_columns()[part] for part in parts if part in _columns())


def _near(key: str, expected: object, found: object) -> bool:
    """Return whether a statistic of a simulation is close to its recorded value; other keys pass.

    Exit codes stay equal. Statistics are the means, the medians and the rates of results.
    """
    if key.endswith("exit"):
        return expected == found
    if not key.rpartition("/")[2].startswith("results.") or not key.endswith(STATISTICS):
        return True
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return math.isclose(expected, found, rel_tol=REL_TOL, abs_tol=0.0)
    return expected == found


def _revalued(key: str, expected: object, found: Mapping[str, Scalar]) -> bool:
    """Return whether a number that is another one by intent is still a plausible one."""
    value = found.get(key, NOTHING)
    if not isinstance(value, int | float) or isinstance(value, bool | str):
        return value == expected
    name, place = re.fullmatch(rf"(.*?)((?:{PLACE.pattern})*)", key).groups()  # type: ignore[union-attr]
    stem = name.removesuffix(LOW_ENDING).removesuffix(HIGH_ENDING)
    ends = (found.get(f"{stem}{end}{place}") for end in (LOW_ENDING, "", HIGH_ENDING))
    known = [end for end in ends if isinstance(end, int | float)]
    inside = known == sorted(known) and all(math.isfinite(end) for end in known)
    if expected is None or value == expected:  # an end may be known now
        return inside
    if not isinstance(expected, int | float) or not expected:
        return False
    return inside and 1.0 / MAX_RATIO <= value / expected <= MAX_RATIO


def _mapped(answer: Mapping[str, Scalar], keys: KeyMap) -> Iterator[tuple[str, object]]:
    """Yield an answer with current keys, without dropped ones."""
    for key, value in answer.items():
        if _rule(key, keys.dropped) is not None:
            continue
        rule = _rule(key, keys.renamed)
        yield (key if rule is None else _renamed(key, rule, keys.renamed[rule])), value


def _rule(key: str, rules: dict[str, str]) -> str | None:
    """Return the rule for a key: that of the whole key, or of its longest prefix."""
    if not rules:
        return None
    general = PLACE.sub("[]", key.rpartition("/")[2] if key[:1].isdigit() else key)
    if general in rules:
        return general
    prefixes = [rule for rule in rules if rule.endswith((".", "[]")) and general.startswith(rule)]
    return max(prefixes, key=len, default=None)


def _renamed(key: str, old: str, new: str) -> str:
    """Return a key with its prefix renamed, keeping list indices in order."""
    step, slash, rest = key.rpartition("/") if key[:1].isdigit() else ("", "", key)
    places = PLACE.findall(rest)
    general = new + PLACE.sub("[]", rest)[len(old) :]
    for place in places:
        general = general.replace("[]", f"\0{place[1:]}" if place[0] == "[" else place, 1)
    return step + slash + general.replace("\0", "[")


def _same(expected: object, found: object, tolerance: float) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool) or not tolerance:
        return isinstance(expected, bool) == isinstance(found, bool) and expected == found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return math.isclose(expected, found, rel_tol=tolerance, abs_tol=0.0)
    return expected == found
