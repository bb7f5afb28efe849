from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given as when, strategies as st

from perfatlas.collectives import OPS
from perfatlas.commands.flags import flags_of, positional_fields, set_flags
from perfatlas.commands.output.answers import finite
from perfatlas.declarations import questions, verb_fields
from perfatlas.measurements.tables import QUANTIZED_INSIDE
from perfatlas.scenario.fields import FIELD_NAMES, TRAFFIC_NAMES
from perfatlas.vocabulary.fields.operators import QUANTIZED


@pytest.mark.parametrize("verb", questions())
def test_every_field_of_a_verb_is_a_flag_and_no_other(verb: str) -> None:
    flags = [item.name for item in fields(flags_of(verb))]
    assert sorted([*positional_fields(verb), *flags]) == sorted(verb_fields(verb))
    assert flags == [name for name in verb_fields(verb) if name in flags]


def test_estimate_takes_the_fields_of_a_scenario() -> None:
    assert sorted(verb_fields("estimate")) == sorted(FIELD_NAMES)


def test_simulate_takes_the_fields_of_traffic_and_scenario() -> None:
    # the clients of a benchmark: num_requests and length_spread of a closed loop
    unread = {"method", "batch", "prefix", "requests_per_client", "osl_spread"}
    unread |= {"benchmark", "quantization_method"}  # accuracy does not depend on traffic
    assert verb_fields("simulate").keys() == {*FIELD_NAMES, *TRAFFIC_NAMES} - unread


def test_the_table_offers_every_collective() -> None:
    assert verb_fields("collective")["op"].choices == OPS


def test_quantization_needs_a_format_measured_with_it() -> None:
    assert QUANTIZED == QUANTIZED_INSIDE


def test_only_set_flags_are_passed_on() -> None:
    flags = flags_of("estimate")(batch=64, prefix=0, tp=8)
    assert set_flags(flags) == {"tp": 8, "batch": 64, "prefix": 0}


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@when(json_values)
def test_non_finite_numbers_become_null(value: object) -> None:
    text = repr(finite(value)) if not isinstance(value, str) else ""
    assert finite(finite(value)) == finite(value)
    if "nan" not in repr(value) and "inf" not in repr(value):
        assert finite(value) == value
    else:
        assert text.count("nan") <= repr(value).count("nan")
