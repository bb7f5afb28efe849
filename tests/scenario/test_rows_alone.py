"""Rows of a table that differ in one field have the answers of single questions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest

from perfatlas.scenario.fields import columns_of
from perfatlas.scenario.fields.answered_rows import alike_rows
from perfatlas.scenario.operator_queries import COLLECTIVE_SIZES, QUERIES, inputs
from perfatlas.scenario.operator_queries.collectives import CollectiveInputs
from perfatlas.scenario.training_steps import TrainInputs
from perfatlas.verbs.collective import collective_columns
from perfatlas.verbs.kernel import kernel_columns
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
        f"kernel {operator}": partial(kernel_columns, operator.removeprefix("op "))
        for operator in ("gemm", "attention", "moe", "op elementwise")
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
GROUPED: Final[list[tuple[type[InputFields], tuple[str, ...]]]] = [
    (TrainInputs, VARYING),
    (CollectiveInputs, COLLECTIVE_SIZES),
    (inputs.GemmInputs, QUERIES["gemm"].varying),
    (inputs.AttentionInputs, QUERIES["attention"].varying),
    (inputs.MoeInputs, QUERIES["moe"].varying),
    (inputs.ElementwiseInputs, QUERIES["elementwise"].varying),
]


def _alone(verb: str, row: Fields) -> Fields:
    """Return the cells of a table of one row that are not empty."""
    cells = {n: cell for n, (cell,) in TABLES[verb]({n: [row[n]] for n in row}).items()}
    return {name: cell for name, cell in cells.items() if cell not in (None, "")}


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


@pytest.mark.parametrize("verb", TABLES)
def test_rows_that_differ_in_one_field_answer_as_alone(verb: str) -> None:
    bases = [asked.fields for asked in asked_of(verb).values() if not asked.files]
    if verb == "train":
        bases += [
            dict(word.split("=") for word in line.split())
            for line in (MOE_TRAINING, DENSE_TRAINING)
        ]
    for base in bases[-1:] if verb == "train" else bases[:1]:
        changed = _changed_alone(verb, base)
        assert "error" not in changed[0][1]
        names = dict.fromkeys(name for row, _ in changed for name in row)
        for rows in (changed, changed[::-1]):  # each end of a table leads its group once
            found = TABLES[verb]({name: [row.get(name) for row, _ in rows] for name in names})
            for place, (row, cells) in enumerate(rows):
                own = {n: column[place] for n, column in found.items() if column[place]}
                assert own.keys() == {n for n, cell in cells.items() if cell}, row
                for name, cell in own.items():
                    number = isinstance(cell, float)
                    wanted = pytest.approx(cells[name], rel=1e-12) if number else cells[name]
                    assert cell == wanted, (row, name)


@pytest.mark.parametrize(("schema", "varying"), GROUPED)
def test_a_field_distinguishes_rows_unless_it_is_a_column(
    schema: type[InputFields], varying: tuple[str, ...]
) -> None:
    values: Fields = dict.fromkeys(schema.fields(), "one")
    row = schema(values)
    changed = [row.changed(**{name: "other"}) for name in schema.fields()]
    first, *codes = alike_rows(columns_of([row, *changed]), varying).tolist()
    alike = [name for name, code in zip(schema.fields(), codes, strict=True) if code == first]
    assert sorted(alike) == sorted(varying)


def test_a_table_without_answers_names_its_reasons() -> None:
    found = kernel_columns("gemm", {"system": ["none"], "m": [8], "n": [8], "k": [8]})
    assert list(found) == ["warnings", "error_code", "error"]
    assert found["error_code"] == ["invalid"]
    asked: Fields = {"op": ["all_reduce"] * 2, "bytes": [8] * 2, "gpus": [8] * 2}
    mixed = collective_columns({"system": ["h100_sxm", "v5p-7"], **asked})  # no such slice
    assert [bool(error) for error in mixed["error"]] == [False, True]
