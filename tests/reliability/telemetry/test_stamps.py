from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.reading import epoch_seconds, iso_seconds

NOON = 1772452800.0  # 2026-03-02T12:00:00Z


@pytest.mark.parametrize("value", [NOON, "2026-03-02T13:00:00+01:00"])
def test_one_moment_in_every_form(value: object) -> None:
    assert epoch_seconds(value, None) == NOON


@given(st.datetimes(), st.sampled_from(["America/Los_Angeles", "Asia/Kolkata", "UTC"]))
def test_any_moment_is_read_or_refused(moment: object, zone: str) -> None:
    try:
        seconds = iso_seconds(str(moment), zone)
    except InvalidSpecError as problem:
        assert "the years 1970 and 2199" in str(problem)  # noqa: PT017 - one that reads is as good
        return
    assert seconds >= 0.0
