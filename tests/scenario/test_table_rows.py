from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfatlas.quantities import InvalidSpecError
from perfatlas.scenario.resolution import resolve
from perfatlas.verbs.estimate import estimate, estimate_table


def test_a_row_carries_the_warnings_of_its_own_estimate() -> None:
    """Queueing, no measured kernels, a context too long, a simulated row and two pools."""
    rows: list[dict[str, Any]] = [
        {"batch": 8},
        {"system": "mi300x"},
        {"mode": "aggregated", "concurrency": 5000, "isl": 8000, "method": "formula"},
        {"mode": "aggregated", "concurrency": 3000, "isl": 4000, "method": "auto"},
        {"batch": 1, "isl": 200_000},
        {"mode": "disaggregated", "prefill_workers": 1, "decode_workers": 4, "decode_batch": 64},
        {"tp": 3},
    ]
    asked = [{"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"} | row for row in rows]
    names = {name for row in asked for name in row}
    answer = estimate_table({name: [row.get(name) for row in asked] for name in names})
    told = ["; ".join(estimate(**row).warnings) for row in asked[:-1]]
    assert answer.columns["warnings"] == [*told, ""]
    assert sum(map(bool, told)) >= 3
    assert list(answer.columns)[-3:] == ["warnings", "error_code", "error"]


def test_rows_are_grouped_by_what_their_formats_mean() -> None:
    """Format names that resolve equally on both devices form one group."""
    rows: list[dict[str, Any]] = [
        {},
        {"format": "bf16"},
        {"gemm_format": "bf16", "batch": 7, "system": "b200_sxm"},
        {"format": "fp8"},
        {"format": "fp8", "tier": "bound"},
        {"format": "none such"},
        {"format": "no other"},
    ]
    asked = [{"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"} | row for row in rows]
    names = {name for row in asked for name in row}
    resolution = resolve({name: [row.get(name) for row in asked] for name in names})
    found = [group.rows_C.tolist() for group in resolution.groups]
    assert found == [[0, 1, 2], [3], [4], [5], [6]]
    assert resolution.refusals.rows() == [5, 6]
    assert "none such" in str(resolution.refusals.error(5))


def test_sizes_of_a_graph_are_columns_of_one_group() -> None:
    """Refused sizes, plans and memory, and sizes that weights follow, stay with their rows."""
    models = [
        *("resnet-50{image_size=160}", "resnet-50", "ResNet50{image_size=4096}"),
        *("resnet-50{image_size=0}", "resnet-50{image_size=288}", "t5-base{sequence_length=64}"),
        *("t5-base{sequence_length=96}", "resnet-50{image_size=288}"),
    ]
    table: dict[str, list[Any]] = {
        "model": models,
        "system": ["l4"] * 8,
        "engine": ["pytorch"] * 8,
        "batch": [1, 2, 4096, 4, 8, 1, 1, 3],
        "tp": [None] * 7 + [2],
    }
    groups = [group.rows_C.tolist() for group in resolve(table).groups]
    assert groups == [[0, 1, 2, 4, 7], [3], [5], [6]]
    answers = estimate_table(table).columns
    assert answers["error_code"] == ["", "", "infeasible", "invalid", "", "", "", "invalid"]
    for row in (0, 1, 4):
        own = {name: column[row : row + 1] for name, column in table.items()}
        alone = estimate_table(own).columns
        assert {name: answers[name][row] for name in alone} == {
            name: column[0] for name, column in alone.items()
        }


def test_rows_that_cannot_be_answered_have_a_code_and_no_numbers() -> None:
    """Refused, too large, aggregated and disaggregated rows."""
    rows: list[dict[str, Any]] = [
        {"batch": 8},
        {"tp": 3},
        {"batch": "many"},
        {"system": "l40s", "batch": 4096},
        {"mode": "aggregated", "concurrency": 64, "method": "formula"},
        {"mode": "disaggregated", "decode_batch": 16},
        {"mode": "disaggregated", "decode_batch": 16, "decode_tp": 5},
    ]
    asked = [{"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm"} | row for row in rows]
    names = {name for row in asked for name in row}
    table = {name: [row.get(name) for row in asked] for name in names}
    found = estimate_table(table).columns
    refused = [code != "" for code in found["error_code"]]
    assert refused == [False, True, True, True, False, False, True]
    assert [number is None for number in found["tpot_s"]] == refused


def test_a_row_of_two_pools_that_does_not_fit_leaves_the_others_of_its_group() -> None:
    shared = {"model": "meta-llama/Llama-3.1-70B", "system": "h200_sxm", "mode": "disaggregated"}
    rows: list[dict[str, Any]] = [
        {"tp": 4},
        {"tp": 4, "prefill_tp": 1},
        {"tp": 4, "decode_tp": 1},
        {"prefill_tp": 1, "decode_tp": 3},
        {"tp": 8},
        {"tp": 4, "prefill_tp": 1, "decode_tp": 3},
    ]
    names = {name for row in rows for name in (*shared, *row)}
    table = {name: [(shared | row).get(name) for row in rows] for name in names}
    columns = estimate_table(table).columns
    assert columns["error_code"] == ["", *["infeasible"] * 3, "", "invalid"]
    assert "tp = 4 has no effect here: all pools override it" in columns["error"][5]
    for place in (0, 4):
        alone = estimate(**shared, **rows[place])
        assert columns["tpot_s"][place] == alone.results["tpot_s"]
        assert columns["warnings"][place] == "; ".join(alone.warnings)


@pytest.mark.parametrize(
    "table", [None, {"batch": {1: 2}}, {"batch": np.array(4)}, {"batch": b"4"}]
)
def test_invalid_tables_are_refused(table: Any) -> None:  # noqa: ANN401 - wrong on purpose
    with pytest.raises(InvalidSpecError, match="expected"):
        estimate_table(table)
