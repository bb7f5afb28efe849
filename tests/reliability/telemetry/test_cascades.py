from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.fits import without_cascades
from perfatlas.reliability.telemetry.formats.xid_log import read_xid_log
from perfatlas.reliability.telemetry.history import History

HEAD = "2026-03-02T01:{:02}:{:02}Z n kernel: NVRM: Xid (PCI:0000:{}:00): {}, x"


def errors(tmp_path: Path, *rows: tuple[int, str, int]) -> History:
    lines = [HEAD.format(second // 60, second % 60, bus, code) for second, bus, code in rows]
    path = tmp_path / "kern.log"
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return read_xid_log([path], coalesce_s=0.0)


def test_what_follows_a_failure_is_its_effect(tmp_path: Path) -> None:
    history = errors(
        tmp_path,
        (0, "61", 48),
        (1, "61", 94),  # follows 48
        (2, "62", 79),  # another GPU
        (30, "61", 48),  # the same error again: a failure of its own
        (59, "61", 64),  # follows 48
        (60, "61", 79),  # a minute after the first
        (61, "61", 13),  # an effect already
    )
    marked, count = without_cascades(history)
    assert count == 2
    assert marked.kind.text() == [
        "failure",
        "effect",
        "failure",
        "failure",
        "effect",
        "failure",
        "effect",
    ]
    assert without_cascades(history, 0.0) == (history, 0)
    with pytest.raises(InvalidSpecError, match="cascade_s = -1"):
        without_cascades(history, -1.0)
    with pytest.raises(InvalidSpecError, match="cascade_s = inf"):
        without_cascades(history, float("inf"))


@given(st.lists(st.tuples(st.integers(0, 600), st.sampled_from([48, 79, 94])), max_size=20))
def test_marking_twice_marks_nothing_more(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int]]
) -> None:
    ordered = [(second, "61", code) for second, code in sorted(rows)]
    history = errors(tmp_path_factory.mktemp("c"), (0, "61", 48), *ordered)
    marked, count = without_cascades(history)
    assert without_cascades(marked)[1] == 0
    assert marked.kind.text().count("effect") == count
    assert marked.kind.text()[0] == "failure"
