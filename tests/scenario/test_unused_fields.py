"""Conditions of fields, and refusal of fields whose condition is not met."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perfatlas.declarations import questions, verb_fields
from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.fields import refuse_unused
from perfatlas.scenario.interrupted_jobs import Goodput
from perfatlas.vocabulary.fields import conditions

KNOWN = {name for verb in questions() for name in verb_fields(verb)}


def named(condition: Any) -> Iterator[str]:  # noqa: ANN401 - any condition
    """Yield the fields that a condition reads."""
    yield from getattr(condition, "names", ())
    if hasattr(condition, "name"):
        yield condition.name
    for inner in getattr(condition, "conditions", ()):
        yield from named(inner)
    if hasattr(condition, "condition"):
        yield from named(condition.condition)


@pytest.mark.parametrize("verb", questions())
def test_conditions_read_fields_that_exist(verb: str) -> None:
    read = {name for field in verb_fields(verb).values() for name in named(field.row.needs)}
    assert read <= KNOWN


def refused(verb: str, *others: dict[str, Any], **values: object) -> str:
    defaults = {name: field.default for name, field in verb_fields(verb).items()}
    with pytest.raises(InvalidSpecError) as caught:
        refuse_unused(defaults | values, verb_fields(verb), others=[defaults | o for o in others])
    return str(caught.value)


def test_fields_with_the_same_reason_are_reported_together() -> None:
    assert refused("goodput", work_s=9.0, what_if=True, mfu=0.4) == (
        "work_s = 9, mfu = 0.4 and what_if = true have no effect here: fleet is not set; set fleet,"
        " such as llama3, or leave work_s, mfu and what_if out"
    )
    assert refused("fleet schedule", depth=5, backfill="none") == (
        "depth = 5 has no effect here: backfill = none; set backfill = easy or conservative, or"
        " leave depth out"
    )


def test_a_field_used_by_one_compared_question_is_accepted() -> None:
    fields = verb_fields("fleet schedule")
    one = {name: field.default for name, field in fields.items()} | {"backfill": "none", "depth": 5}
    refuse_unused(one, fields, others=[one | {"backfill": "easy"}])
    other = {"depth": 9, "backfill": "none"}
    assert "depth = 9" in refused("fleet schedule", other, backfill="none")


def test_defaults_are_unset_and_zero_is_a_value() -> None:
    fields = verb_fields("goodput")
    values = {name: field.default for name, field in fields.items()}
    refuse_unused(values, fields)
    refuse_unused(values | {"spares": 0, "repair_s": 60.0}, fields)
    assert "spares is not set" in refused("goodput", repair_s=60.0)


def test_each_condition_by_hand() -> None:
    values = {"a": 1, "b": "x", "c": None}
    gone = conditions.Missing("it is raining", "wait")
    facts = {"dry": lambda: gone, "light": lambda: None}
    containing_predictions = (
        conditions.AnySet("c", "a"),
        conditions.NotSet("c", ""),
        conditions.Equals("b", "y", "x"),
        conditions.NotEqual("a", 2),
    )
    assert [
        one.missing(values, facts) for one in (*containing_predictions, conditions.Fact("light"))
    ] == [None] * 5
    assert conditions.AllOf(*containing_predictions).missing(values, facts) is None
    assert (
        conditions.AnyOf(conditions.Fact("dry"), conditions.AnySet("a")).missing(values, facts)
        is None
    )
    assert (
        conditions.AllOf(
            conditions.AnySet("a"), conditions.Fact("dry"), conditions.AnySet("c")
        ).missing(values, facts)
        == gone
    )
    assert (
        conditions.AnyOf(conditions.Fact("dry"), conditions.AnySet("c")).missing(values, facts)
        == gone
    )
    assert conditions.WithMessage(conditions.AnySet("c"), "why", "how").missing(
        values, facts
    ) == conditions.Missing("why", "how")
    assert (
        conditions.WithMessage(conditions.AnySet("a"), "why", "how").missing(values, facts) is None
    )
    assert conditions.NotSet("b", "wins").missing(values, facts) == conditions.Missing(
        "b = x wins", "leave b out"
    )
    assert conditions.Equals("c", 1).missing(values, facts) == conditions.Missing(
        "c is not set", "set c = 1"
    )
    assert conditions.NotEqual("a", 1).missing(values, facts) == conditions.Missing(
        "a = 1", "set another a"
    )
    neither = conditions.Missing("neither c nor d is set", "set c or d")
    assert conditions.AnySet("c", "d").missing(values, facts) == neither
    noted = conditions.AllOf(
        conditions.AnySet("a"), conditions.Noted(conditions.Fact("dry")), conditions.AnySet("c")
    )
    assert noted.missing(values, facts) == conditions.Missing(
        "it is raining", "wait", is_noted=True
    )
    assert conditions.Noted(conditions.Fact("warm")).missing(values, facts) is None


def test_a_path_is_its_text() -> None:
    assert Goodput.read({"fleet": Path("fleets") / "a.toml"}).fleet == str(Path("fleets/a.toml"))
