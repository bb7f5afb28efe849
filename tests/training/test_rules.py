"""Rules of layouts: what is refused, and with which words."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.networks import resolve_model
from perfatlas.quantities import broken_rules
from perfatlas.training.layouts import layout_rules
from tests.training.asked import layouts

DENSE = "meta-llama/Llama-3.1-8B"
SPARSE = "Qwen/Qwen3-30B-A3B"
TABLES = "dlrm-dcnv2"
# network, sizes, rule, words
REFUSED: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    (DENSE, {"tp": 3}, "tp_divides_heads", "nearest that does is tp = 2"),
    (DENSE, {"tp": 3}, "tp_divides_kv_heads", "must divide the 8 key-value heads or be a multiple"),
    (DENSE, {"tp": 3}, "tp_divides_network", "nearest that does is tp = 2"),
    (DENSE, {"dp": 3}, "batch_divides", "nearest is global_batch = 15"),
    (DENSE, {"cp": 3}, "cp_divides_sequence", "nearest is sequence_length = 4,098"),
    (DENSE, {"tp": 8, "sequence_length": 4}, "tp_divides_tokens", "the 4 tokens of a micro-batch"),
    (DENSE, {"pp": 64}, "stages_within_layers", "pp = 64 stages need as many layers"),
    (DENSE, {"pp": 64}, "stages_within_layers", "the largest is pp = 32"),
    (DENSE, {"pp": 8, "vpp": 8}, "stages_within_layers", "largest vpp is 4"),
    (DENSE, {"pp": 32, "global_batch": 1 << 17}, "passes_within_limit", "are 4,194,304 forward"),
    (DENSE, {"vpp": 2}, "schedule", "set vpp = 1 or use interleaved"),
    (DENSE, {"ep": 2}, "dense_without_ep", "ep = 2 and expert_tp = 1 apply to MoE models"),
    (SPARSE, {"ep": 3}, "ep_divides_experts", "must divide the 128 experts"),
    (SPARSE, {"expert_tp": 5}, "expert_tp_divides_expert", "nearest that does is expert_tp = 4"),
    (SPARSE, {"ep": 8, "dp": 4}, "experts_divide_ranks", "must divide the 4 ranks of a stage"),
    (TABLES, {"tp": 2}, "tp_divides_operators", "tp = 2 must divide"),
    (TABLES, {"cp": 2}, "cp_divides_operators", "cp = 2 must divide"),
    (TABLES, {"ep": 2, "dp": 4}, "tables_on_all_ranks", "= 2 x 1 must equal dp = 4"),
    (TABLES, {"ep": 32, "dp": 32}, "ep_within_tables", "has 26 embedding tables; ep is at most 26"),
)


@pytest.mark.parametrize(("model", "sizes", "name", "words"), REFUSED)
def test_a_layout_that_cannot_run_is_refused(
    model: str, sizes: dict[str, Any], name: str, words: str
) -> None:
    rules = layout_rules(resolve_model(model).network, "1f1b")
    (own,) = (rule for rule in rules if rule.name == name)
    assert words in str(broken_rules([own], layouts(**sizes))[0])


def test_each_rule_of_layouts_has_an_example() -> None:
    networks = [resolve_model(model).network for model in (DENSE, SPARSE, TABLES)]
    known = {rule.name for network in networks for rule in layout_rules(network, "1f1b")}
    assert known == {name for _, _, name, _ in REFUSED}


@pytest.mark.parametrize(
    ("schedule", "sizes", "nearest"),
    [
        # 3 micro-batches of 2 on 1 rank; 4 are the nearest multiple of pp = 4
        ("interleaved", {"vpp": 2, "micro_batch": 2, "global_batch": 6}, 8),
        ("interleaved", {"vpp": 2, "dp": 3, "global_batch": 27}, 24),
        # 2 pp = 8 micro-batches at least
        ("dualpipe", {"global_batch": 1}, 8),
        ("dualpipe", {"global_batch": 11}, 10),
    ],
)
def test_a_batch_that_a_schedule_refuses_has_the_nearest_that_runs(
    schedule: str, sizes: dict[str, int], nearest: int
) -> None:
    rules = layout_rules(resolve_model(DENSE).network, schedule)
    problem = broken_rules(rules, layouts(pp=4, **sizes))[0]
    assert str(problem).endswith(f"; the nearest is global_batch = {nearest}")
    assert not broken_rules(rules, layouts(pp=4, **(sizes | {"global_batch": nearest})))


def test_a_layout_that_can_run_breaks_no_rule() -> None:
    sizes = layouts(tp=[1, 8], pp=[4, 2], cp=[2, 1], dp=[2, 4], global_batch=32)
    assert not broken_rules(layout_rules(resolve_model(DENSE).network, "1f1b"), sizes)
