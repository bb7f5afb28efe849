from __future__ import annotations

import faulthandler
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import strategies as st

from perfatlas.quantities import PerfatlasError
from tests.examples import scaled_examples

# Inputs of every hostile test, 2,000 together in the profile `thorough` of `make validate`.
# hypothesis draws as many unless a strategy runs dry, and none of these does.
EXAMPLES: Final = {
    "configs": scaled_examples(7.8),
    "config_files": scaled_examples(1.8),
    "overrides": scaled_examples(6.2),
    "hardware_files": scaled_examples(6.2),
    "scenarios": scaled_examples(7.8),
    "tables": scaled_examples(2.4),
    "operators": scaled_examples(7.8),
}
# shrinking a failure takes long; what hangs is ended after HANG_S, see `survive`
PATIENT: Final = [pytest.mark.timeout(3600), pytest.mark.slow]
HANG_S: Final = 600.0  # an answer takes milliseconds


class Nest(NamedTuple):
    """A value nested so deep that its text cannot be written; made real after it is drawn."""

    depth: int
    table: bool


class Power(NamedTuple):
    """A power of ten whose text may be too long to be written; made real after it is drawn."""

    exponent: int
    sign: int


def real(value: object) -> Any:  # noqa: ANN401 - anything a user could hand in
    """Return the value that a drawn placeholder represents."""
    if isinstance(value, Power):
        return value.sign * 10**value.exponent
    if isinstance(value, Nest):
        inner: object = 1
        for _ in range(value.depth):
            inner = {"a": inner} if value.table else [inner]
        return inner
    if isinstance(value, list):
        return [real(item) for item in value]
    if isinstance(value, dict):
        return {key: real(item) for key, item in value.items()}
    return value


DEEP: Final = st.builds(Nest, st.sampled_from([50, 5000]), st.booleans())
HUGE: Final = st.builds(Power, st.sampled_from([19, 308, 400, 4000]), st.sampled_from([1, -1]))
NUMBERS: Final = st.one_of(
    st.integers(-3, 3),
    st.integers(-(10**30), 10**30),
    st.sampled_from([2**31, 2**63, 2**64]),
    HUGE,
    st.floats(),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, 1e-300]),
)
TEXTS: Final = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "",
            " ",
            "\x00",
            "a\x00b",
            "\ud800",
            "\u202e\u0000",
            "é" * 300,
            "a" * 100_000,
            "../../etc/passwd",
            "/dev/null",
            "/",
            "/proc/self/mem",
            "~",
            "~nobody/x",
            "nan",
            "inf",
            "1e999",
            "0x10",
            "1_000",
            "\uff11\uff12",
            "-1",
            "{}",
            "{{{{",
            "%s%n",
            "${HOME}",
            "__import__('os')",
            "=1+1",
            "fp8",
            "NaN",
            "null",
        ]
    ),
)
SCALARS: Final = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
JUNK: Final = st.one_of(
    SCALARS,
    st.lists(SCALARS, max_size=3),
    st.dictionaries(st.text(max_size=6), SCALARS, max_size=3),
    st.binary(max_size=8),
    st.tuples(st.integers(), st.integers()),
    DEEP,
    st.builds(Power, st.just(5000), st.just(1)),
)


def survive(question: Callable[[], object]) -> object | None:
    """Return the answer, or None after an error that can be printed; any other outcome fails."""
    answer: object | None = None
    refusal: PerfatlasError | None = None
    # compiled code hears no signal: a thread shows where it hangs and ends the process
    faulthandler.dump_traceback_later(HANG_S, exit=True, file=2)
    try:
        answer = question()
    except PerfatlasError as error:
        refusal = error
    finally:
        faulthandler.cancel_dump_traceback_later()
    if refusal is not None:
        assert refusal.exit_code in {2, 3, 4, 5, 6}
        assert 0 < len(str(refusal).strip()) < 20_000
    return answer


def numbers_are_sane(results: Mapping[str, Any]) -> None:
    """Assert that no result is negative, infinite or not a number."""
    for name, value in results.items():
        if isinstance(value, Mapping):
            numbers_are_sane(value)
        elif not isinstance(value, str) and value is not None:
            assert 0 <= float(value) < math.inf, (name, value)


def write(folder: Path, name: str, content: bytes) -> Path:
    """Return a file with a name that is not cached."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content)
    return path
