from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from perfatlas.quantities import InvalidSpecError
from perfatlas.reliability.telemetry.reading import epoch_seconds, iso_seconds

NOON = 1772452800.0  # 2026-03-02T12:00:00Z


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        "2026-03-02T13:00:00+01:00",
        {"seconds": "1772452800", "nanos": 0},
        {"$date": 1772452800000},
        {"$date": "2026-03-02T12:00:00Z"},
    ],
)
def test_one_moment_in_every_form(value: object) -> None:
    assert epoch_seconds(value, None) == NOON


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("0001-01-01T00:00:00", "'0001-01-01T00:00:00' is not between the years 1970 and 2199"),
        ("9999-12-31T23:59:59", "is not between the years"),
        (1772452800000, "in ms or ns"),
        (10**400, "is not between the years"),
        ({"$date": 10**400}, "is not between the years"),
        ({"$date": True}, "True is not a time"),
        ({"seconds": "--5"}, "a dict of 1 items is not a time"),
        ({"seconds": "²"}, "is not a time"),
        ({"seconds": 5, "nanos": 10**400}, "is not a time"),
    ],
)
@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Europe/Berlin"])
def test_times_no_machine_had_are_refused(value: object, problem: str, zone: str) -> None:
    with pytest.raises(InvalidSpecError, match=problem):
        epoch_seconds(value, zone)


@given(st.datetimes(), st.sampled_from(["America/Los_Angeles", "Asia/Kolkata", "UTC"]))
def test_any_moment_is_read_or_refused(moment: object, zone: str) -> None:
    try:
        seconds = iso_seconds(str(moment), zone)
    except InvalidSpecError as problem:
        assert "the years 1970 and 2199" in str(problem)  # noqa: PT017 - one that reads is as good
        return
    assert seconds >= 0.0
