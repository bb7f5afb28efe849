"""Rows of a table that differ in one field have the answers of single questions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

import perfatlas
from perfatlas.answer import flat_results
from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.fields import grouping_key
from perfatlas.scenario.training_steps.inputs import TrainInputs
from perfatlas.verbs.collective import collective_columns
from perfatlas.verbs.collective.priced import SIZES
from perfatlas.verbs.collective.question import CollectiveInputs
from perfatlas.verbs.kernel import kernel_columns
from perfatlas.verbs.kernel.clocks import CLOCKS
from perfatlas.verbs.kernel.operator_columns import (
    ATTENTION_SIZES,
    ELEMENTWISE_SIZES,
    GEMM_SIZES,
    MOE_SIZES,
)
from perfatlas.verbs.kernel.question import (
    AttentionInputs,
    ElementwiseInputs,
    GemmInputs,
    MoeInputs,
)
from perfatlas.verbs.train import train_columns
from perfatlas.verbs.train.answer import VARYING
from tests.golden.option_changes import asked_of
from tests.golden.option_values import others_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from perfatlas.scenario.fields import InputFields

    Fields = dict[str, Any]

TABLES: Final[Mapping[str, Callable[[dict[str, list[Any]]], dict[str, list[Any]]]]] = {
    "train": train_columns,
    "collective": collective_columns,
    **{
        f"kernel {operator}": partial(kernel_columns, operator)
        for operator in ("gemm", "attention", "moe", "elementwise")
    },
}
# many fields have an effect in these; tensor-parallel ranks of some rows repeat the 4 KV heads
MOE_TRAINING: Final = (
    "model=Qwen/Qwen3-30B-A3B system=h100_sxm gpus=64 global_batch=256 sequence_length=4096 tp=2"
    " pp=2 cp=2 ep=8 vpp=2 zero=1 sites=2 site_bandwidth=1e10 site_round_trip_s=0.01"
    " checkpoint_bytes_per_s=1e11 expert_overlap=true activation_offload=0.3 usd_per_kwh=0.1"
)
DENSE_TRAINING: Final = (
    "model=meta-llama/Llama-3.1-8B system=h100_sxm gpus=32 global_batch=256 sequence_length=4096"
    " tp=2 pp=4 vpp=2 zero=2 format=fp8 tensor_overlap=true packed_length=1024"
    " first_stage_layers=6"
)
BASES: Final = 3  # golden questions of each verb
GROUPED: Final[list[tuple[type[InputFields], tuple[str, ...]]]] = [
    (TrainInputs, VARYING),
    (CollectiveInputs, SIZES),
    (GemmInputs, GEMM_SIZES + CLOCKS),
    (AttentionInputs, ATTENTION_SIZES + CLOCKS),
    (MoeInputs, MOE_SIZES + CLOCKS),
    (ElementwiseInputs, ELEMENTWISE_SIZES + CLOCKS),
]


def _alone(verb: str, row: Fields) -> Fields:
    """Return the cells of a single question."""
    try:
        answer = getattr(perfatlas, verb.replace(" ", "_"))(**row)
    except PerfatlasError as problem:
        return {"error_code": problem.error_code, "error": str(problem)}
    return {**dict(flat_results(answer.results)), "warnings": "; ".join(answer.warnings)}


def _changed_alone(verb: str, base: Fields) -> list[tuple[Fields, Fields]]:
    """Return a question, and those that differ in one field, with their cells."""
    found = [(base, _alone(verb, base))]
    for name, values in others_of(verb).items():
        for value in reversed(values):
            row = {**base, name: value}
            found.append((row, _alone(verb, row)))
            if "error" not in found[-1][1]:
                break
    return found


def _parts(cells: Fields) -> tuple[Fields, Fields]:
    """Return the numbers and the texts of the cells that are not empty."""
    told = {name: value for name, value in cells.items() if value not in (None, "")}
    numbers = {name: value for name, value in told.items() if not isinstance(value, str)}
    return numbers, {name: value for name, value in told.items() if name not in numbers}


@pytest.mark.parametrize("verb", TABLES)
def test_rows_that_differ_in_one_field_answer_as_alone(verb: str) -> None:
    bases = [asked.fields for asked in asked_of(verb).values() if not asked.files][:BASES]
    if verb == "train":
        bases += [
            dict(word.split("=") for word in line.split())
            for line in (MOE_TRAINING, DENSE_TRAINING)
        ]
    for number, base in enumerate(bases[-2:] if verb == "train" else bases):
        changed = _changed_alone(verb, base)
        assert "error" not in changed[0][1]
        names = dict.fromkeys(name for row, _ in changed for name in row)
        rows = changed[:: 1 - 2 * (number % 2)]  # each end of a table leads its group in turn
        found = TABLES[verb]({name: [row.get(name) for row, _ in rows] for name in names})
        for place, (row, cells) in enumerate(rows):
            own = _parts({name: column[place] for name, column in found.items()})
            alone = _parts(cells)
            assert own[0] == pytest.approx(alone[0], rel=1e-12), row
            assert own[1] == alone[1], row


@pytest.mark.parametrize(("schema", "varying"), GROUPED)
def test_a_field_distinguishes_rows_unless_it_is_a_column(
    schema: type[InputFields], varying: tuple[str, ...]
) -> None:
    key = grouping_key(schema, varying)
    values: Fields = dict.fromkeys(schema.model_fields, "one")
    row = schema.model_construct(**values)
    changed = {name: row.model_copy(update={name: "other"}) for name in schema.model_fields}
    alike = [name for name, other in changed.items() if key(other) == key(row)]
    assert sorted(alike) == sorted(varying)
