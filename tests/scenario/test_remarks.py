"""Each row of the tables of remarks applies to an example of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from perfatlas.networks import model_config
from perfatlas.operators import with_fields
from perfatlas.scenario.deployments import (
    candidate_remarks as of_candidates,
    estimate_remarks as of_estimates,
    evaluate_one,
    evaluate_pools,
)
from perfatlas.scenario.fields import Scenario
from perfatlas.scenario.operator_queries import (
    COLLECTIVE_ASSUMPTIONS,
    COLLECTIVE_WARNINGS,
    CollectiveInputs,
    price_collective_queries,
)
from perfatlas.verbs.simulate import simulate

if TYPE_CHECKING:
    from perfatlas.quantities import Remark

Fields = dict[str, Any]
LLAMA: Final[Fields] = {"model": "meta-llama/Llama-3.1-8B"}
PLAIN: Final[Fields] = LLAMA | {"system": "h200_sxm", "isl": 1000, "osl": 100}
QUEUED: Final[Fields] = PLAIN | {"mode": "aggregated", "method": "formula"}
POOLS: Final[Fields] = (
    PLAIN
    | {"mode": "disaggregated", "method": "formula", "concurrency": 64}
    | {"prefill_workers": 1, "decode_workers": 1}
)
DEEPSEEK: Final[Fields] = PLAIN | {"model": "deepseek-ai/DeepSeek-V3", "osl": 10, "batch": 8}
SIX: Final = "h200_sxm{node.devices=6,device.scale_up.domain_size=6}"
FLUX: Final[Fields] = {"model": "flux.1-dev", "system": "h100_sxm"}
TABLES: Final[Fields] = {"model": "dlrm-dcnv2", "system": "h100_sxm", "batch": 8}
RESNET: Final[Fields] = {"model": "resnet-50", "batch": 4}
CACHED: Final[Fields] = {"model": "deepseek-ai/DeepSeek-V4-Flash", "system": "b200_sxm", "tp": 8}
IMAGES: Final[Fields] = {"model": "Qwen/Qwen3-VL-8B-Instruct", "system": "h100_sxm", "images": 1}
TPU_CHIPS: Final = RESNET | {"system": "tpu_v7"}
LOCKED: Final[Fields] = LLAMA | {"system": "h100_sxm"}
LARGE: Final = LOCKED | {"isl": 2048, "osl": 2, "batch": 64, "clock_ratio": 1.3}
DECODES: Final = LOCKED | {"isl": 128, "osl": 128, "batch": 512, "clock_ratio": 1.5}
QUERY_PLAN: Final = Path(__file__).parents[2] / "examples/query_plan.toml"
Examples = list[tuple[Fields, str]]
LPU: Final = LLAMA | {"system": "lpu", "gpus": 64}
TRAINIUM: Final = LLAMA | {"system": "trn2", "isl": 512, "osl": 64, "batch": 1}
FRONT: Final[Fields] = {"isl": 64, "osl": 400, "concurrency": 1024, "stream_interval": 1}
GATHERED: Final[Fields] = {"attention_dp": 16, "ep": 16, "batch": 512} | {
    "expert_exchange": "all_gather_reduce_scatter"
}
RESULTS: Final[Examples] = [
    (
        QUEUED | {"concurrency": 64, "engine": "trtllm", "max_num_batched_tokens": 1010},
        "a step holds a whole prompt of 1,000 tokens",
    ),
    (QUEUED | {"concurrency": 5000}, "of 5000 requests in flight"),
    (TRAINIUM, "ttft_s: the interval spans"),
    (TRAINIUM, "tpot_s: the interval spans"),
    (QUEUED | FRONT | {"server_processes": 1}, "the front end of a replica limits the rate"),
]
CANDIDATES: Final[Examples] = [
    (LPU, "whose upper end is unknown"),
    (LLAMA | {"system": "cpu", "batch": 1}, "priced at their roofline"),
    (LLAMA | {"system": "mi300x"}, "kernels of another vendor's GPUs"),
    (RESNET | {"model": "sdxl", "system": "tpu_v6e"}, "not validated"),
    (LLAMA | {"system": "gaudi3", "batch": 1}, "have batches of 75 and more"),
    ({"model": str(QUERY_PLAN), "system": "h200_sxm"}, "the time is extrapolated"),
    (LARGE, "prefill steps would draw"),
    (DECODES, "decode steps would draw"),
    (PLAIN | {"system": "h200_sxm{node.nics=1}", "tp": 8, "pp": 2}, "unseen fabrics"),
    (DEEPSEEK | {"tp": 16}, "too few measured runs agree on"),
    (LLAMA | {"system": "maia_200", "batch": 1}, "is announced or never measured"),
    (CACHED | {"engine": "sglang"}, "the KV capacity is an upper limit"),
    (
        PLAIN | {"model": "Qwen/Qwen3-Next-80B-A3B-Instruct", "engine": "trtllm", "tp": 4},
        "trtllm@1.3 divides memory",
    ),
    (PLAIN | {"model": "unknown.json"}, "is not known: its config is read by"),
    (IMAGES | {"image_height": 1080, "image_width": 1920}, "the time of the vision encoder"),
    (FLUX | {"cp": 4, "ring_degree": 2}, "rotate among ring_degree GPUs"),
    (FLUX | {"cp": 2}, "divides the tokens of the denoiser (Ulysses)"),
    (FLUX | {"model": "sd3-medium", "cp": 2, "guidance_degree": 2}, "guidance_degree divides"),
    (TABLES | {"attention_dp": 8, "ep": 8}, "divides embedding tables over GPUs"),
    (TABLES, "every GPU holds all embedding tables"),
    (TPU_CHIPS, "a chip of 2 devices runs a program on one of them"),
    (RESNET | {"model": "whisper-large-v3", "system": "h100_sxm"}, "a batch starts and ends"),
    (FLUX | {"model": "sdxl"}, "the scheduler, the safety checker"),
    (TPU_CHIPS, "SDXL of MLPerf, the only published network"),
    (RESNET | {"system": "h100_sxm"}, "fitted to language models: published networks"),
    (RESNET | {"system": "a100_sxm", "engine": "tensorrt", "format": "int8"}, "int8 products have"),
    (DEEPSEEK | GATHERED, "gathers the tokens of all 16 attention-DP ranks"),
    (PLAIN | {"isl": 200_000}, "exceeds the model's context length of 131072"),
    (DEEPSEEK | {"system": SIX, "tp": 4, "pp": 4, "batch": 1}, "cut groups of this plan"),
    (PLAIN | {"system": SIX, "tp": 4, "dp": 3}, "take 3 nodes of 6 GPUs and leave 6 GPUs idle"),
    (LLAMA | {"system": "h200_sxm{device.architecture=other}"}, "is not predicted: no energies"),
    (
        LLAMA | {"system": "h200_sxm{device.architecture=other}", "input_distribution": "zeros"},
        "input_distribution = zeros",
    ),
    (PLAIN | {"power_cap_w": 600, "node_power_cap_w": 9000}, "node_power_cap_w has no effect"),
    (PLAIN | {"node_power_cap_w": 30_000}, "draws at most its TDP"),
    (PLAIN | {"engine": "vllm@0.6"}, "stands for it, with a wider interval"),
    (LLAMA | {"system": "mi300x", "engine": "vllm@0.6"}, "ran slower kernels on AMD GPUs"),
    (PLAIN | {"system": "h200_sxm{node.nics=1}"}, "has no effect on this answer"),
]
COLLECTIVE: Final[Fields] = {"system": "h200_sxm", "op": "all_reduce", "bytes": 1024, "gpus": 8}
FAILED: Final[Fields] = {"fabric_routing": "adaptive", "failed_links": 1}
COLLECTIVES: Final[Examples] = [
    (COLLECTIVE | {"system": "mi300x"}, "kernels of another vendor's GPUs"),
    (COLLECTIVE | {"gpus": 1}, "one GPU exchanges no data"),
    (COLLECTIVE | {"system": "h200_sxm{node.nics=1}"}, "has no effect on this answer"),
    (
        COLLECTIVE | {"gpus": 3, "kernel_family": "vllm"},
        "small buffers of 3 GPUs of h200_sxm are reduced by NCCL",
    ),
    (COLLECTIVE | {"system": "h200_sxm{node.nics=1}", "gpus": 16}, "unseen fabrics"),
    (
        COLLECTIVE | {"system": "h200_sxm{device.scale_up.domain_size=4}"},
        "in different domains communicate over the host link",
    ),
    (COLLECTIVE | {"system": "a100_pcie", "gpus": 2}, "the interval covers an NVLink bridge of"),
    (COLLECTIVE | {"gpus": 128}, "16 nodes: collectives between nodes were measured on at most 8"),
    (COLLECTIVE | {"fabric_routing": "ecmp"}, "no link between nodes is used"),
    (COLLECTIVE | {"fabric_routing": "ecmp", "tier": "bound"}, "shared links do not slow"),
]
ASSUMPTIONS: Final[Examples] = [
    (COLLECTIVE | {"system": "l40s"}, "groups of more than two GPUs over PCIe"),
    (COLLECTIVE | {"fabric_routing": "ecmp", "gpus": 16}, "flows between nodes are those of rings"),
    (
        COLLECTIVE | FAILED | {"gpus": 512, "link_failure": "flapping"},
        "resent once, after 4.29 s: docs.nvidia.com",
    ),
    (COLLECTIVE | {"tier": "bound", "kernel_family": "vllm"}, "kernel_family = vllm"),
    (COLLECTIVE | {"format": "fp8", "tier": "bound"}, "format = fp8_static has no effect"),
    (COLLECTIVE | {"tier": "measured"}, "measured"),
    (COLLECTIVE | {"tier": "measured", "gpus": 16}, "no measured rows near this size"),
]


def check(row: Remark, reads: Any, words: str) -> None:  # noqa: ANN401 - what the row reads
    """Check that a row applies and what it says."""
    about, said = row(reads)
    assert np.all(about)
    texts = said(0) if callable(said) else said
    assert words in (texts if isinstance(texts, str) else " ".join(texts))


def estimated(fields: Fields) -> of_estimates.Estimated:
    question, evaluation = evaluate_one(Scenario.read(fields))
    return of_estimates.estimated(question, evaluation, question.model.network.phases)


@pytest.mark.parametrize("row", range(len(RESULTS)))
def test_a_remark_on_results_applies_to_its_example(row: int) -> None:
    tables = (of_estimates.WHOLE_PROMPTS, of_estimates.QUEUES, of_estimates.INTERVALS)
    rows = [row for table in (*tables, of_estimates.FRONT_ENDS) for row in table]
    assert len(rows) == len(RESULTS)
    fields, words = RESULTS[row]
    check(rows[row], estimated(fields), words)


@pytest.mark.parametrize("row", range(len(CANDIDATES)))
def test_a_remark_on_candidates_applies_to_its_example(
    row: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = model_config("meta-llama/Llama-3.1-8B").replace('"llama"', '"unheard"')
    Path("unknown.json").write_text(config, encoding="utf-8")
    partly = of_estimates.SOME_AT_BOUND  # below
    steps = [row for row in of_estimates.STEPS if row not in partly]
    networks = (*of_candidates.NETWORKS, *of_candidates.GRAPHS)
    rows = [*steps, *of_candidates.UNSEEN, *networks, *of_estimates.AFTER_RESULTS]
    assert len(rows) == len(CANDIDATES)
    fields, words = CANDIDATES[row]
    check(rows[row], estimated(fields).candidates, words)
    if "no effect" not in words and rows[row] not in of_candidates.GRAPHS:
        applies, sentences = rows[row](estimated(PLAIN | {"batch": 1}).candidates)
        assert not (np.any(applies) and sentences), "a remark on everything"


def test_operators_without_a_calibration_are_named() -> None:
    found = estimated(PLAIN).candidates
    for at, row in enumerate(of_estimates.SOME_AT_BOUND):
        cost, index_C = found.steps[at]
        match_CO = cost.prices.match_CO.copy()
        largest = int(np.argmax((cost.count_CO * cost.prices.time_s_CO)[0]))
        match_CO[:, largest] = -1
        cost = replace(cost, prices=with_fields(cost.prices, match_CO=match_CO))
        steps = [*found.steps]
        steps[at] = steps[at]._replace(cost=cost, index_C=index_C)
        check(row, found._replace(steps=steps), f"{cost.operators[largest].name} have no measured")


def test_pools_that_do_not_fit_on_nodes_are_named() -> None:
    fields = POOLS | {"system": SIX, "prefill_workers": 2, "prefill_tp": 4, "decode_tp": 4}
    rates = evaluate_pools(Scenario.read(fields))
    pools = [of_candidates.Remarked(pool[0]) for pool in (rates.prefill, rates.decode)]
    numbers = rates.load.prefill_workers, rates.load.decode_workers
    words = "2 prefill workers of 4 GPUs and 1 decode worker of 4 take 3 nodes of 6 GPUs"
    check(of_candidates.POOLS[2], of_candidates.TwoPools(pools[0], pools[1], numbers), words)


def test_an_underloaded_decode_pool_is_named() -> None:
    fields = POOLS | {"decode_workers": 3, "concurrency": 512, "decode_batch": 128}
    rates = evaluate_pools(Scenario.read(fields))
    (row,) = of_estimates.UNDERLOADS
    check(row, (rates, np.zeros(1, np.bool_)), "use more prefill_workers")


@pytest.mark.parametrize(
    ("table", "examples"),
    [(COLLECTIVE_WARNINGS, COLLECTIVES), (COLLECTIVE_ASSUMPTIONS, ASSUMPTIONS)],
)
def test_remarks_on_collectives_apply_to_their_examples(
    table: tuple[Remark, ...], examples: Examples
) -> None:
    for row, (fields, words) in zip(table, examples, strict=True):
        check(row, price_collective_queries([CollectiveInputs.ask(fields)]), words)


TRAFFIC: Final[Fields] = PLAIN | {"concurrency": 4, "num_requests": 8}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"isl": 130_000, "osl": 5000, "num_requests": 3}, "3 requests of up to 135,000 tokens"),
        ({"kv_blocks": 20}, "is too small for prompt and output"),
        (
            {"engine": "trtllm", "chunked_prefill": False, "max_num_batched_tokens": 512},
            "cannot be split (chunked_prefill)",
        ),
    ],
)
def test_remarks_on_simulations_apply_to_their_examples(changes: Fields, words: str) -> None:
    assert any(words in text for text in simulate(**{**TRAFFIC, **changes}).answer.warnings)
