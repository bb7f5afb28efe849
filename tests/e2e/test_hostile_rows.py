from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from perfatlas.cli import main
from perfatlas.scenario.fields import FIELD_NAMES

GOOD: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "system": "h200_sxm",
    "tp": 1,
    "batch": 4,
    "isl": 256,
    "osl": 32,
}
CODES = {"invalid", "infeasible", "unsupported", "usage", None}
anything = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["h200_sxm{device.tdp=-1W}", "h200_sxm{", "../..", "/dev/zero", "fp8", "0"])
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)
mutations = st.dictionaries(st.sampled_from(FIELD_NAMES), anything, min_size=1, max_size=3)


@settings(
    max_examples=3,  # tests/hostile asks more; here it is the way through files
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a table shrinks slowly
)
@given(st.lists(mutations, min_size=30, max_size=30))
def test_every_mutated_row_has_an_answer_or_a_named_error(
    tmp_path_factory: pytest.TempPathFactory, changes: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    source, target = folder / "in.jsonl", folder / "out.jsonl"
    source.write_text("".join(json.dumps({**GOOD, **change}) + "\n" for change in changes))
    assert main(["estimate", "--table", str(source), "--output", str(target)]) == 0
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(rows) == len(changes)
    for row in rows:
        assert row["error_code"] in CODES
        if row["error_code"] is None:
            assert row["ttft_s"] > 0
        else:
            assert row["error"]
