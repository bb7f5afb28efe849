from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from perfatlas import files
from perfatlas.quantities import InvalidSpecError, Source

SPEED = files.Number(dimension="bytes_per_s", unit="B/s", least=1e6, most=1e18)
SHARE = files.Number(least=0.0, most=1.0)
SIZE = files.Number(dimension="bytes", example="5.7 TB")
FIELDS: dict[str, files.Field[Any]] = {
    "name": files.Field(files.Text(empty=False), required=True, meaning="what it is called"),
    "every": files.Field(files.Duration(), into="every_s"),
    "count": files.Field(files.Whole(least=0)),
    "kind": files.Field(files.Text(choices=("cold", "warm", "hot"))),
    "exposed": files.Field(files.Flag()),
}


def refusal(reader: files.Reader[Any], value: object) -> str:
    with pytest.raises(InvalidSpecError, match=r"^a\.toml: key") as error:
        reader.read(value, "a.toml: key")
    return str(error.value).removeprefix("a.toml: key")


@pytest.mark.parametrize(
    ("reader", "value", "found"),
    [
        (SPEED, "4.8 TB/s", 4.8e12),
        (SPEED, 7e11, 7e11),
        (SHARE, 1, 1.0),
        (SIZE, "2 KiB", 2048.0),
        (files.Whole(), -3, -3),
        (files.Duration(), "2 min", 120.0),
        (files.Text(choices=("a", "b")), "b", "b"),
        (files.Flag(), "True", True),
        (files.Flag(), False, False),
        (files.Array(of=files.Duration()), ["1 s", "2 s"], (1.0, 2.0)),
    ],
)
def test_values_are_read_in_si_units(
    reader: files.Reader[Any], value: object, found: object
) -> None:
    assert reader.read(value, "a.toml: key") == found


@pytest.mark.parametrize(
    ("reader", "value", "said"),
    [
        (SPEED, "6", " = '6' is outside 1 MB/s to 1 EB/s; is the unit right?"),
        (SPEED, 0, " = 0: expected a positive number"),
        (SPEED, [], " = a list of 0 items: expected a number, or text with a unit"),
        (SPEED, "6 W", " = '6 W': 'W' is not a valid unit"),
        (SPEED, "9" * 100, "is not a number"),
        (SPEED, 10**40, "is out of range"),
        (SHARE, "half", " = 'half': expected a number"),
        (SHARE, True, " = True: expected a number"),
        (SHARE, 2, " = 2 is outside 0 to 1"),
        (SHARE, -1, " = -1: expected a positive number or 0"),
        (SHARE, float("nan"), " = nan is not a number"),
        (SIZE, 6e12, " = 6000000000000.0: write it with a unit, as '5.7 TB'"),
        (files.Whole(), 2.5, " = 2.5: expected a whole number"),
        (files.Whole(), True, " = True: expected a whole number"),
        (files.Whole(least=2), 1, " = 1: expected at least 2"),
        (files.Duration(), 720, " = 720 has no time unit"),
        (files.Text(), 3, " = 3: expected a short text"),
        (files.Text(empty=False), "", " = '': expected a short text"),
        (files.Text(), "a\x1b", "without line breaks and control characters"),
        (files.Text(choices=("warm",)), "worm", "is not one of warm; did you mean 'warm'?"),
        (files.Flag(), 1, " = 1: expected true or false"),
        (
            files.Array(of=files.Duration(), expected="an array of times"),
            3,
            " = 3: expected an array of times",
        ),
    ],
)
def test_errors_state_value_rule_and_remedy(
    reader: files.Reader[Any], value: object, said: str
) -> None:
    assert said in refusal(reader, value)


def test_all_problems_of_a_table_are_reported_together() -> None:
    table = {"every": 3, "count": -1, "kinds": "warm"}
    with pytest.raises(InvalidSpecError) as error:
        files.read_fields(table, FIELDS, "a.toml: spares")
    first, *others = str(error.value).split("; also ")
    assert first == "a.toml: spares: unknown key 'kinds'; did you mean 'kind'?"
    assert others[0] == "name is missing: what it is called"
    assert others[1].startswith("every = 3 has no time unit")
    assert others[2] == "count = -1: expected a positive number or 0"


def test_omitted_fields_stay_omitted() -> None:
    assert files.read_fields({"name": "a", "every": "1 s"}, FIELDS, "") == {
        "name": "a",
        "every_s": 1.0,
    }


@given(st.dictionaries(st.sampled_from([*FIELDS, "other"]), st.integers() | st.text()))
def test_any_table_is_read_or_refused_with_its_location(table: dict[str, object]) -> None:
    try:
        found = files.read_fields(table, FIELDS, "a.toml")
    except InvalidSpecError as error:
        found = {"refused": str(error).startswith("a.toml: ")}
    assert found.get("refused", True)


def test_values_have_their_own_source_or_the_tables() -> None:
    table = {"source": {"kind": "datasheet", "ref": "page 3"}}
    default = files.default_source(table, None, "a.toml")
    assert default == Source(kind="datasheet", ref="page 3")
    assert files.read_entry(SPEED, "1 GB/s", default, "a.toml: bandwidth").source == default
    own = {"value": "1 GB/s", "kind": "derived", "note": "2 x 0.5"}
    entry = files.read_entry(SPEED, own, default, "a.toml: bandwidth")
    assert entry.value == 1e9
    assert entry.source == Source(kind="derived", ref="page 3", note="2 x 0.5")


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ({"kind": "derived"}, "bandwidth has no value"),
        ({"value": 1e9, "kind": "guess"}, "kind = 'guess' is not one of datasheet"),
        ({"value": 1e9, "reff": "x"}, "unknown key 'reff'; did you mean 'ref'?"),
        ({"value": 1e9, "ref": " "}, "ref = ' ': expected text"),
        ({"value": 1e9}, "kind is missing: one of"),
        ({"value": 1e9, "kind": "assumed"}, "ref is missing: name the document with the value"),
    ],
)
def test_a_value_without_a_usable_source_is_refused(raw: dict[str, object], said: str) -> None:
    nothing = Source(kind="", ref="")  # type: ignore[arg-type]
    with pytest.raises(InvalidSpecError) as error:
        files.read_entry(SPEED, raw, nothing, "a.toml: bandwidth")
    assert said in str(error.value)
