"""Every field of estimates and simulations, changed alone, is felt, refused or remarked on."""

from __future__ import annotations

from typing import Final

import pytest

import perfatlas
from perfatlas.declarations import verb_fields
from perfatlas.quantities import InvalidSpecError
from tests.golden.options import OTHERS, Change, asked_of, estimated, sample, simulated

# what changes nothing in one question: a limit that is not reached, or the default in other words
UNFELT: Final[dict[str, str]] = {
    "max_num_seqs": "a limit above the sequences there are",
    "chunked_prefill": "prompts that fit one step",
    "moe_format": "the format of the checkpoint, whatever it is called",
    "attention_format": "attention that waits for memory at the bound",
    "format": "the format that gemm_format and moe_format override",
    **dict.fromkeys(
        ("slo_ttft_s", "slo_tpot_s", "slo_itl_s", "slo_request_latency_s"),
        "objectives that the same requests meet",
    ),
    "ep": "experts of one token at the bound",
    "moe_tp": "experts of one token at the bound",
}

ALWAYS: Final = ("estimate-aggregated-00", "estimate-disaggregated-01", "estimate-speculative-00")


def ignored(changes: list[Change]) -> list[str]:
    return [
        f"{one.question}: {one.field} = {one.value}"
        for one in changes
        if one.outcome == "ignored" and one.field not in UNFELT
    ]


@pytest.mark.parametrize("verb", ["estimate", "simulate"])
def test_every_field_has_other_values(verb: str) -> None:
    assert sorted(set(verb_fields(verb)) - set(OTHERS)) == []


def test_every_field_of_estimates_changed_alone() -> None:
    asked = asked_of("estimate")
    questions = sample("estimate", 8, seed=3) | {name: asked[name] for name in ALWAYS}
    changes = [*estimated(questions, verb_fields("estimate"))]
    assert ignored(changes) == []
    felt = {one.field for one in changes if one.outcome == "moved"}
    # the version needs the optional package of measured tables
    assert sorted(set(verb_fields("estimate")) - felt - {"silicon_version", *UNFELT}) == []


def test_every_field_of_simulations_changed_alone() -> None:
    asked = sample("simulate", 2, seed=1).items()
    small = {name: {**fields, "max_num_seqs": 16} for name, fields in asked}  # fewer prices
    changes = [*simulated(small, verb_fields("simulate"))]
    assert ignored(changes) == []


def test_a_size_that_both_pools_override_is_refused() -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "mode": "disaggregated"}
    sizes = {"tp": 4, "prefill_tp": 1, "decode_tp": 2}
    told = r"tp = 4 has no effect here: all pools override it \(1, 2\); leave tp out"
    with pytest.raises(InvalidSpecError, match=told):
        perfatlas.estimate(**asked, **sizes)  # type: ignore[arg-type]
    table = {name: [value] * 2 for name, value in {**asked, **sizes}.items()}
    columns = perfatlas.estimate_table({**table, "decode_tp": [2, 4]}).columns
    assert [bool(text) for text in columns["error"]] == [True, False]


def test_one_token_over_two_ranks_has_a_price() -> None:
    asked = {"model": "Qwen/Qwen3-30B-A3B", "system": "b200_sxm", "cp": 2, "tp": 1}
    load = {"num_requests": 4, "request_rate": 2.0, "isl": 64, "osl": 4}
    found = perfatlas.simulate(**asked, **load)  # type: ignore[arg-type]
    assert found.results["requests_completed"] == 4


def test_a_router_before_two_pools_sends_every_token() -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "mode": "disaggregated"}
    with pytest.raises(
        InvalidSpecError, match="stream_interval = 7 has no effect here: with two pools, a router"
    ):
        perfatlas.estimate(**asked, stream_interval=7)  # type: ignore[arg-type]


def test_a_tighter_precision_runs_more_requests_unless_their_number_is_set() -> None:
    asked = {"model": "meta-llama/Llama-3.1-8B", "system": "h200_sxm", "request_rate": 500.0}
    asked |= {"isl": 64, "osl": 4}
    completed = []
    for precision in (0.05, 0.01):
        found = perfatlas.simulate(**asked, sampling_precision=precision).results  # type: ignore[arg-type]
        assert found["precision_reached"]
        for name in ("ttft_s", "tpot_s"):
            half_width = found[f"{name}_seed_half_width"]["mean"]
            assert half_width <= precision * found[name]["mean"], (name, precision)
        completed.append(found["requests_completed"])
    assert completed[0] < completed[1]
    with pytest.raises(InvalidSpecError, match="num_requests = 20 is a fixed sample"):
        perfatlas.simulate(**asked, num_requests=20, sampling_precision=0.1)  # type: ignore[arg-type]
