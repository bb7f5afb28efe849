"""Mutated hardware: override text and TOML files; a system or a named error."""

from __future__ import annotations

import itertools
import json
import math
import re
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings, strategies as st

from perfatlas.answer import Answer
from perfatlas.files import Number, Text
from perfatlas.hardware.schema import FIELDS
from perfatlas.verbs.estimate import estimate
from tests.hostile.support import EXAMPLES, PATIENT, TEXTS, numbers_are_sane, survive, write

pytestmark = PATIENT

NUMBER: Final = re.compile(r"\d+(\.\d+)?")
SERIAL: Final = itertools.count()
BASES: Final = ("h200_sxm", "mi300x", "b200_sxm", "cpu", "tpu_v5e", "l40s")
VALUES: Final = st.one_of(
    st.sampled_from(
        [
            "0",
            "-1",
            "1",
            "1e9",
            "1e18",
            "1e-9",
            "nan",
            "inf",
            "-inf",
            "1e400",
            "9" * 400,
            "6 TB/s",
            "6 TB",
            "6 TFLOP/s",
            "6 furlongs",
            "1 GHz",
            "1 us",
            "true",
            "maybe",
            "nvlink",
            "none",
            "infiniband_ndr",
            "hgx_hopper",
            "",
            "=",
            "{}",
            "1 EB/s",
            "0.001",
            "1e6",
            "64 MiB",
            "h200_sxm",
        ]
    ),
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(str),
    TEXTS.map(lambda text: text[:200]),
)
FRAGMENTS: Final = st.sampled_from(
    [
        "-1",
        "0",
        "nan",
        "inf",
        "1e400",
        "9" * 5000,
        "true",
        '""',
        '"\\u0000"',
        '"6 TB/s"',
        '"-6 TB/s"',
        '"6 parsecs"',
        "[]",
        "[[[[]]]]",
        "[" * 2000,
        "{}",
        "{ value = 1 }",
        "{ value = -1, kind = 3 }",
        '{ value = "1 GB/s", kind = "guess", ref = "" }',
        '{ value = { value = 1 }, kind = "assumed", ref = "x" }',
        '{ valu = 1, kind = "assumed", ref = "x" }',
        "1979-05-27",
        "'''",
        "\x00",
        "\ufeff1",
        "0x7fffffffffffffffffff",
        '"' + "a" * 100_000 + '"',
        "{" + "a = {" * 500,
    ]
)


CHANGES: Final = st.tuples(st.one_of(st.sampled_from(sorted(FIELDS)), TEXTS), VALUES)


def likely(path: str) -> st.SearchStrategy[tuple[str, str]]:
    """Return changes of one field to values its range allows."""
    field = FIELDS[path].reader
    if isinstance(field, Text):
        return st.tuples(st.just(path), st.sampled_from(field.choices or ("name", "h200_sxm")))
    if not isinstance(field, Number):
        return st.tuples(st.just(path), st.sampled_from(["true", "false"]))
    ends = (math.log10(max(field.least, 1e-9)), math.log10(field.most))
    value = st.floats(*ends).map(lambda power: round(10**power) if field.whole else 10**power)
    return st.tuples(st.just(path), value.map(str))


LIKELY: Final = st.sampled_from(sorted(FIELDS)).flatmap(likely)


def ask(system: str, **fields: Any) -> None:  # noqa: ANN401 - names of the vocabulary
    given = {"model": "Qwen/Qwen3-0.6B", "batch": 4, "isl": 64, "osl": 4, **fields}
    answer = survive(lambda: estimate(system=system, **given))
    if isinstance(answer, Answer):
        numbers_are_sane(answer.results)
        json.dumps(answer.to_dict(), allow_nan=False)


@given(
    base=st.one_of(st.sampled_from(BASES), st.sampled_from(BASES), TEXTS),
    changes=st.lists(st.one_of(LIKELY, LIKELY, CHANGES), min_size=1, max_size=4),
    shape=st.sampled_from([*["{}{{{}}}"] * 6, "{}{{{}", "{}{}}}", "{}{{{}}}{{}}"]),
    tier=st.sampled_from(["bound", "auto"]),
    tp=st.sampled_from([1, 8]),
)
@settings(max_examples=EXAMPLES["overrides"])
def test_overrides(
    base: str, changes: list[tuple[str, str]], shape: str, tier: str, tp: int
) -> None:
    inside = ", ".join(f"{field}={value}" for field, value in changes)
    ask(shape.format(base, inside), tier=tier, tp=tp)


def lines_of(name: str) -> list[str]:
    text = resources.files("perfatlas").joinpath(f"data/hardware/devices/{name}.toml")
    return text.read_text("utf-8").splitlines()


def some_fields(name: str, data: st.DataObject) -> list[str]:
    """Return a few fields of a device under their headings.

    An answer is asked again without each field that a file changes; forty of them tell no more
    than four.
    """
    lines = lines_of(name)[4:]
    kept = data.draw(st.sets(st.integers(0, len(lines) - 1), max_size=4))
    return [line for at, line in enumerate(lines) if at in kept or line.startswith("[")]


def scaled(number: str, data: st.DataObject) -> str:
    """Return another number, close enough to the first to make sense now and then."""
    factor = data.draw(st.sampled_from([0.0, 1e-6, 0.1, 0.5, 0.99, 1.01, 1.5, 2.0, 10.0, 1e6, -1]))
    return f"{float(number) * factor:.12g}"


def mutate(lines: list[str], data: st.DataObject) -> None:
    """Delete, double, swap, cut, retype or add one line."""
    at = data.draw(st.integers(0, max(len(lines) - 1, 0)))
    if not lines:
        return
    kind = data.draw(st.integers(0, 7))
    key = lines[at].partition("=")[0]
    if kind == 0:
        del lines[at]
    elif kind == 1:
        lines.insert(at, lines[at])
    elif kind == 2:
        lines.insert(data.draw(st.integers(0, len(lines))), lines.pop(at))
    elif kind == 3:
        lines[at] = lines[at][: data.draw(st.integers(0, len(lines[at])))]
    elif kind == 4:
        lines.insert(at, data.draw(TEXTS))
    elif kind in (5, 6):
        lines[at] = NUMBER.sub(lambda found: scaled(found.group(), data), lines[at], count=1)
    else:
        lines[at] = f"{key}= {data.draw(FRAGMENTS)}"


@given(data=st.data(), name=st.sampled_from(BASES))
@settings(max_examples=EXAMPLES["hardware_files"])
def test_files(data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = data.draw(st.booleans())
    lines = lines_of(name) if whole else [f'base = "{name}"', *some_fields(name, data)]
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(lines, data)
    content = "\n".join(lines).encode("utf-8", "surrogatepass")
    path = write(tmp_path_factory.getbasetemp() / "specs", f"{next(SERIAL)}.toml", content)
    tier = data.draw(st.sampled_from(["bound", "auto"]))
    ask(str(path), tier=tier, tp=data.draw(st.sampled_from([1, 8])))


def test_places_that_are_no_spec(tmp_path: Path) -> None:
    (tmp_path / "loop.toml").symlink_to(tmp_path / "loop.toml")
    (tmp_path / "folder.toml").mkdir()
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    (tmp_path / "large.toml").write_bytes(b"# " * 200_000)
    places = [
        "/dev/null",
        "/dev/zero",
        "/proc/self/mem",
        "/",
        "..",
        f"{tmp_path}/",
        f"{tmp_path}/\x00.toml",
        *(str(tmp_path / f"{name}.toml") for name in ("loop", "folder", "binary", "large", "none")),
        "x/" * 2000,
        "x" * 4097,
    ]
    for place in places:
        assert survive(partial(estimate, model="Qwen/Qwen3-0.6B", system=place)) is None
