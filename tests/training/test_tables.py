"""Training of recommenders whose embedding tables GPUs divide."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perfatlas.cli import main
from perfatlas.quantities import InfeasibleError, UnsupportedError
from perfatlas.scenario.training_steps import question_of, read_training
from perfatlas.training.step import micro_batch_costs
from perfatlas.training.work import Part
from perfatlas.verbs.train import train

# tables of 10 million, a million and 100 rows of 16, with 5 ids, one and one
BAGS = """
name = "bags"
item = "sample"
parameters = 176_001_992
operators = [
  {kind = "embedding_bag", rows = "5*batch", width = 16, samples = "batch", table_rows = 10000000},
  { kind = "embedding_bag", rows = "batch", width = 16, samples = "batch", table_rows = 1_000_000 },
  { kind = "embedding_bag", rows = "batch", width = 16, samples = "batch", table_rows = 100 },
  { kind = "linear", m = "batch", n = 8, k = 48 },
  { kind = "add", read = "16 * batch", write = "8 * batch", after = "linear" },
  { kind = "add", read = "16 * batch", write = "8 * batch", after = "add" },
]
"""
COPIED = 100  # rows of the table that all GPUs hold
DENSE = 176_001_992 - (11_000_000 + COPIED) * 16  # parameters of the product
ITEMS = 64  # of a GPU
DLRM: dict[str, Any] = {"model": "dlrm-dcnv2", "system": "h100_sxm", "global_batch": 65_536}


def _fields(folder: Path, **sizes: int) -> dict[str, Any]:
    path = folder / "bags.toml"
    path.write_text(BAGS, encoding="utf-8")
    gpus = sizes.get("ep", 1) * sizes.get("expert_tp", 1)
    return {
        "model": str(path),
        "system": "h100_sxm",
        "engine": "inductor",
        "gpus": gpus,
        "global_batch": ITEMS * gpus,
        **sizes,
    }


def _sent(fields: dict[str, Any]) -> dict[str, tuple[str, Part, float]]:
    costs = micro_batch_costs(question_of([read_training(fields)]))
    return {
        one.name.removeprefix("embedding_bag_"): (one.op, one.part, float(one.bytes_C[0]))
        for one in costs.exchanges
        if one.bytes_C[0]
    }


def test_exchanges_of_a_step_by_hand(tmp_path: Path) -> None:
    """Sums of 16 elements are in 32 bits; gradients take their way back, or are reduced."""
    sums = 2 * ITEMS * 16 * 4  # of a table, for the items of both GPUs
    copied = {"all_reduce": ("all_reduce", Part.INPUT_GRADIENT, COPIED * 16 * 4)}
    assert _sent(_fields(tmp_path, ep=2)) == copied | {
        "indices_all_to_all": ("all_to_all", Part.FORWARD, 5 * 2 * ITEMS * 8),
        "all_to_all": ("all_to_all", Part.FORWARD, sums),
        "all_to_all_gradient": ("all_to_all", Part.INPUT_GRADIENT, sums),
    }
    assert _sent(_fields(tmp_path, expert_tp=2)) == copied | {
        "indices_all_to_all": ("all_to_all", Part.FORWARD, 6 * ITEMS * 8),
        "reduce_scatter": ("reduce_scatter", Part.FORWARD, 2 * sums),
        "reduce_scatter_gradient": ("all_gather", Part.INPUT_GRADIENT, 2 * sums),
    }
    assert _sent(_fields(tmp_path)) == {}


def test_the_backward_kernel_updates_the_rows_that_were_looked_up(tmp_path: Path) -> None:
    costs = micro_batch_costs(question_of([read_training(_fields(tmp_path, expert_tp=2))]))
    forward, update = (row.operator for row in costs.rows if row.operator.name == "embedding_bag")
    rows, sums = 6 * ITEMS * 16 * 4, 2 * 2 * ITEMS * 16 * 4
    assert forward.work().cold_bytes[0] == rows
    assert forward.work().activation_bytes[0] == sums
    assert update.work().cold_bytes[0] == rows  # read, and written beside the gradient of sums
    assert update.work().activation_bytes[0] == rows + sums


@pytest.mark.parametrize(
    ("sizes", "rows"), [({}, 11_000_000), ({"ep": 2}, 10_000_000), ({"expert_tp": 2}, 5_500_000)]
)
def test_tables_have_weights_and_a_state_per_row(
    tmp_path: Path, sizes: dict[str, int], rows: int
) -> None:
    memory = train(**_fields(tmp_path, **sizes), optimizer="sgd").results["memory"]
    assert memory["weights_bytes"] == (rows + COPIED) * 16 * 4 + DENSE * 4
    assert memory["optimizer_bytes"] == (rows + COPIED) * 4 + DENSE * 4
    assert memory["gradients_bytes"] == DENSE * 4


def test_more_gpus_hold_no_more_and_train_faster() -> None:
    steps = [train(**DLRM, gpus=gpus, expert_tp=gpus).results for gpus in (2, 4, 8, 16)]
    memory = [one["memory"]["weights_bytes"] for one in steps]
    assert memory == sorted(memory, reverse=True)
    assert memory[0] == pytest.approx(26_151_671_809 * 4 / 2, rel=1e-2)
    assert steps[2]["step_time_s"] < steps[0]["step_time_s"]


def test_the_bound_is_a_lower_limit() -> None:
    for sizes in ({"ep": 8}, {"expert_tp": 8}, {"ep": 4, "expert_tp": 2}):
        bound, own = (
            train(**DLRM | sizes, gpus=8, tier=tier).results["step_time_s"]
            for tier in ("bound", "physics")
        )
        assert bound <= own


def test_tables_that_do_not_fit_are_to_be_divided() -> None:
    with pytest.raises(InfeasibleError) as refused:
        train(**DLRM)
    assert refused.value.advice == (
        "divide the tables over more GPUs: set gpus, and ep x expert_tp = dp",
    )


def test_tables_of_unknown_rows_are_refused(tmp_path: Path) -> None:
    fields = _fields(tmp_path)
    text = re.sub(", table_rows = [0-9_]+", "", BAGS)
    (tmp_path / "bags.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UnsupportedError, match=r"100% of its parameters .* state table_rows"):
        train(**fields)


def test_the_waterfall_names_the_exchange_of_embeddings(capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"--{name.replace('_', '-')}={value}" for name, value in DLRM.items()]
    assert main(["train", *words, "--gpus=8", "--ep=8"]) == 0
    shown = capsys.readouterr().out
    assert "exchange of embeddings" in shown
    assert "expert parallelism" not in shown


def test_the_lower_limit_holds_for_every_placement_of_tables() -> None:
    """Whole tables on the busiest rank are no limit: with rows divided, the step is shorter."""
    placements = ({"ep": 8}, {"ep": 4, "expert_tp": 2}, {"expert_tp": 8})
    step_s = {
        tier: [
            train(**DLRM, gpus=8, **sizes, tier=tier).results["step_time_s"] for sizes in placements
        ]
        for tier in ("bound", "auto")
    }
    assert step_s["bound"] == pytest.approx([step_s["bound"][0]] * 3)
    assert max(step_s["bound"]) < min(step_s["auto"])
