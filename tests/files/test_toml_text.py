from __future__ import annotations

import tomllib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from perfatlas.files import format_toml

keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.dates()
    | st.datetimes()
    | st.times()
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(keys, values, max_size=5))
def test_written_documents_round_trip(document: dict[str, Any]) -> None:
    assert tomllib.loads(format_toml(document)) == document


def test_a_document_as_a_person_would_write_it() -> None:
    document = {
        "device": "h200_sxm",
        "memory": {"bandwidth": 4.8e12, "note": None},
        "fits": [{"id": "gemm", "rows": 3}, {"id": "moe", "rows": 4}],
    }
    assert format_toml(document) == (
        'device = "h200_sxm"\n\n[memory]\nbandwidth = 4800000000000.0\n'
        '\n[[fits]]\nid = "gemm"\nrows = 3\n\n[[fits]]\nid = "moe"\nrows = 4\n'
    )


def test_arrays_are_one_line_where_they_fit_and_tables_are_blocks() -> None:
    document: dict[str, Any] = {
        "donors": ["a", "b], ["],
        "nested": [[1, 2], [3.5, 4]],
        "long": [10**9 + number for number in range(10)],
        "cause": [{"name": "x", "ends": ["1 s", "2 s"], "law": {"mean": "3 h"}}],
    }
    text = format_toml(document)
    assert text == (
        'donors = ["a", "b], ["]\nnested = [[1, 2], [3.5, 4]]\nlong = [\n'
        + "".join(f"  {number},\n" for number in document["long"])
        + ']\n\n[[cause]]\nname = "x"\nends = ["1 s", "2 s"]\n\n[cause.law]\nmean = "3 h"\n'
    )
    assert tomllib.loads(text) == document


def test_numpy_scalars_are_numbers() -> None:
    text = format_toml({"rows": np.int64(3), "error": np.float64(0.5), "half": np.float32(0.5)})
    assert tomllib.loads(text) == {"rows": 3, "error": 0.5, "half": 0.5}


@pytest.mark.parametrize("value", [b"bytes", [None], {1, 2}, object()])
def test_values_without_a_toml_form_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="not TOML serializable"):
        format_toml({"value": value})
