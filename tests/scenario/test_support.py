"""What supports an answer: its own measured runs, related ones, or none."""

from __future__ import annotations

from typing import Any

import pytest

from perfatlas.answer import merged_evidence
from perfatlas.engines import SUPPORT, measured_runs, run_support
from perfatlas.report.text.closing import confidence_lines
from perfatlas.verbs.collective import collective
from perfatlas.verbs.estimate import estimate
from perfatlas.verbs.kernel import kernel_gemm
from perfatlas.verbs.search import search
from perfatlas.verbs.simulate import simulate

HERE, RELATED, EXTRAPOLATED = SUPPORT
DENSE, EXPERTS = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"
LOAD: dict[str, Any] = {"isl": 512, "osl": 64, "concurrency": 2}


@pytest.mark.parametrize(
    ("expected", "model", "system", "engine"),
    [
        (HERE, DENSE, "h100_sxm", "vllm"),
        (HERE, EXPERTS, "b300_sxm", "sglang"),
        (RELATED, DENSE, "b300_sxm", "sglang"),  # ran models with experts there
        (RELATED, DENSE, "h20", "vllm"),  # another device of the architecture
        (RELATED, DENSE, "l40s", "vllm"),  # another engine on the device
        (RELATED, DENSE, "tpu_v6e", "vllm_tpu"),  # measured kernels, no service
        (EXTRAPOLATED, DENSE, "mi355x", "vllm"),  # some kernels of another vendor's GPUs
        (RELATED, DENSE, "h100_sxm{device.memory.bandwidth=4TB/s}", "vllm"),
        (RELATED, DENSE, "h100_sxm", "vllm@0.13"),  # borrows the profile of another release
        (EXTRAPOLATED, DENSE, "rtx_4090", "vllm"),
        (EXTRAPOLATED, "Qwen/Qwen3.5-27B", "h100_sxm", "vllm"),  # an unseen kind
    ],
)
def test_runs_of_services_support_an_estimate(
    expected: str, model: str, system: str, engine: str
) -> None:
    fields: dict[str, Any] = LOAD | {"tp": 4} if "27B" in model or model == EXPERTS else LOAD
    answer = estimate(model=model, system=system, engine=engine, mode="aggregated", **fields)
    assert answer.evidence.support == expected
    told = answer.to_dict()
    assert told["evidence"]["support"] == expected
    assert confidence_lines(told)[0].startswith(f"{expected}: ")


@pytest.mark.parametrize("fields", [{"tier": "bound"}, {"engine": "ideal"}])
def test_limits_and_the_ideal_engine_have_no_support(fields: dict[str, Any]) -> None:
    answer = estimate(model=DENSE, system="h100_sxm", mode="aggregated", **LOAD, **fields)
    assert answer.to_dict()["evidence"]["support"] is None


def test_every_verb_that_serves_names_the_support_and_pools_the_weaker_one() -> None:
    asked = {"model": DENSE, "system": "h20", "engine": "vllm", **LOAD}
    found = [
        simulate(**asked, num_requests=4).answer,
        search(**asked, mode="aggregated", gpus=1).answer,
    ]
    assert [answer.evidence.support for answer in found] == [RELATED, RELATED]
    here = estimate(**asked | {"system": "h100_sxm"}, mode="aggregated").evidence
    for pair in ((here, found[0].evidence), (found[0].evidence, here)):
        assert merged_evidence(*pair).support == RELATED


@pytest.mark.parametrize(
    ("expected", "system"), [(HERE, "h200_sxm"), (RELATED, "h20"), (EXTRAPOLATED, "a10")]
)
def test_measured_kernels_support_a_kernel(expected: str, system: str) -> None:
    assert kernel_gemm(m=512, n=512, k=512, system=system).evidence.support == expected


def test_measured_collectives_support_a_collective() -> None:
    assert collective(op="all_reduce", bytes=1e6, gpus=8, system="h100_sxm").evidence.support == (
        HERE
    )


def test_without_its_runs_a_device_is_related_or_extrapolated() -> None:
    """By hand: runs of SGLang alone support vLLM on its device, and on no other architecture."""
    runs = {"dense": {"sglang": measured_runs()["dense"]["sglang"]}}
    places = [("hopper", "h100_sxm"), ("hopper", "gh200"), ("ampere", "a100_sxm")]
    found = [
        [run_support(runs, "dense", (name, *at)) for at in places] for name in ("sglang", "vllm")
    ]
    assert found == [[HERE, RELATED, EXTRAPOLATED], [RELATED, EXTRAPOLATED, EXTRAPOLATED]]
