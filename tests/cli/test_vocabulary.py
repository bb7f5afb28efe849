from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from hypothesis import given as when, strategies as st

from perfatlas.cli.commands.collective import CollectiveFlags, Op
from perfatlas.cli.flags import Formats, Limits, Plan, ScenarioFlags, given
from perfatlas.cli.flags.scenario import Load, Phases, Subject
from perfatlas.cli.output.answers import finite
from perfatlas.collectives import OPS
from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.scenario.fields.vocabulary import parse_scenario
from perfatlas.verbs.collective.answer import FIELDS as COLLECTIVE_FIELDS


def flag_names(flags: Any) -> list[str]:  # noqa: ANN401 - any dataclass of flags
    names: list[str] = []
    for item in fields(flags):
        value = getattr(flags, item.name)
        names += flag_names(value) if is_dataclass(value) else [item.name]
    return names


def test_every_name_of_the_scenario_is_a_flag_and_no_other() -> None:
    names = flag_names(ScenarioFlags())
    assert sorted(names) == sorted(FIELD_NAMES)
    assert len(names) == len(set(names))


def test_help_tells_the_defaults_of_the_scenario() -> None:
    nothing = parse_scenario({"model": "m", "system": "s"})
    told = 0
    for part in (Subject, Load, Plan, Formats, Limits, Phases):
        for name, hint in get_type_hints(part, include_extras=True).items():
            for said in getattr(hint, "__metadata__", ()):
                if isinstance(said.show_default, str) and name not in ("batch", "concurrency"):
                    value = getattr(nothing, name)
                    assert said.show_default == (
                        f"{value:g}" if name == "clock_ratio" else str(value)
                    )
                    told += 1
    assert told >= 10


def test_the_flag_offers_every_collective() -> None:
    assert get_args(Op) == OPS


def test_every_argument_of_a_collective_is_a_flag() -> None:
    assert sorted(CollectiveFlags.__dataclass_fields__) == sorted(COLLECTIVE_FIELDS)


def test_only_what_was_given_is_passed_on() -> None:
    flags = ScenarioFlags(load=Load(batch=64, prefix=0), plan=Plan(tp=8))
    assert given(flags) == {"batch": 64, "prefix": 0, "tp": 8}


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@when(json_values)
def test_no_number_that_is_not_finite_is_left(value: object) -> None:
    text = repr(finite(value)) if not isinstance(value, str) else ""
    assert finite(finite(value)) == finite(value)
    if "nan" not in repr(value) and "inf" not in repr(value):
        assert finite(value) == value
    else:
        assert text.count("nan") <= repr(value).count("nan")
