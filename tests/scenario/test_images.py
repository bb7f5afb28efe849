"""Images in prompts: length of prompts, time and memory of the vision encoder, refusals."""

from __future__ import annotations

from typing import Any, Final

import pytest

from perfatlas.answer import Answer
from perfatlas.networks import ENCODER, resolve_model
from perfatlas.report.text import question_lines
from perfatlas.step import graph_kernels
from perfatlas.verbs.estimate import estimate, estimate_table
from perfatlas.verbs.search import search
from perfatlas.verbs.simulate import simulate

TEXT: Final[dict[str, Any]] = {
    "model": "Qwen/Qwen3-VL-8B-Instruct",
    "system": "h100_sxm",
    "isl": 512,
    "osl": 200,
}
IMAGES: Final[dict[str, Any]] = {"images": 2, "image_height": 1080, "image_width": 1920}
PROMPT: Final = 512 + 2 * 34 * 60


def _encoding_s(answer: Answer) -> float:
    rows = [row for row in answer.breakdown if row["name"].startswith(ENCODER)]
    assert {row["phase"] for row in rows} <= {"prefill"}
    return float(sum(row["time_s"] for row in rows))


def test_a_prefill_is_that_of_as_many_tokens_of_text_and_the_encoder() -> None:
    text, images = estimate(**{**TEXT, "isl": PROMPT}), estimate(**TEXT, **IMAGES)
    added_s = images.results["ttft_s"] - text.results["ttft_s"]
    assert added_s == pytest.approx(_encoding_s(images), rel=1e-9)
    assert images.results["tpot_s"] == text.results["tpot_s"]
    assert images.results["memory"] == text.results["memory"]
    assert any("isl + 4,080 tokens" in note for note in images.evidence.assumptions)


def test_chunks_encode_every_image_once() -> None:
    whole = estimate(**TEXT, **IMAGES, max_num_batched_tokens=8192, tier="bound", engine="ideal")
    cut = estimate(**TEXT, **IMAGES, max_num_batched_tokens=1148, tier="bound", engine="ideal")
    assert cut.results["prefill_steps"] == PROMPT / 1148
    # the step of the breakdown is one of four, with half an image
    assert 4.0 * _encoding_s(cut) == pytest.approx(_encoding_s(whole), rel=0.02)


def test_weights_of_the_encoder_are_divided_and_always_held() -> None:
    network = resolve_model(TEXT["model"]).network
    held = [
        estimate(**TEXT, tp=tp, **images).results["memory"]["weights_bytes"]
        for tp, images in ((1, {}), (1, IMAGES), (4, {}))
    ]
    assert held[0] == held[1] == 2 * network.parameters().total
    assert 0.25 * held[0] < held[2] < 0.26 * held[0]


def test_ranks_that_do_not_divide_the_encoder_hold_all_of_it() -> None:
    network = resolve_model(TEXT["model"]).network
    rest = network.parameters().total - network.encoder_parameters
    held = estimate(**TEXT, tp=32).results["memory"]["weights_bytes"]
    key_heads = 36 * 2 * 4096 * 128 * (1 - 8 / 32)  # a rank holds one of eight, not a quarter
    text = rest / 32 + key_heads
    assert held == pytest.approx(2 * (network.encoder_parameters + text), rel=1e-3)


def test_each_layer_of_a_divided_encoder_reduces_twice() -> None:
    rows = {row["name"]: row for row in estimate(**TEXT, **IMAGES, tp=4).breakdown}
    for product in ("output_projection", "down_projection"):
        assert rows[f"{ENCODER}{product}_all_reduce"]["count"] == 27.0


def test_rows_of_a_table_equal_single_answers() -> None:
    sizes = ((1, 224), (2, 1080), (3, 1080))
    rows = [{**TEXT, "images": images, "image_height": height} for images, height in sizes]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    found = estimate_table({**columns, "isl": [512, 512, 4096]}).columns
    for place, row in enumerate(rows):
        alone = estimate(**{**row, "isl": 4096 if place == 2 else 512})
        assert found["ttft_s"][place] == pytest.approx(alone.results["ttft_s"], rel=1e-12)


@pytest.mark.parametrize(("name", "padded"), [("8B", 96 / 72), ("2B", 1.0)])
def test_attention_kernels_of_the_encoder_pad_heads(
    name: str, padded: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attention_s() -> float:
        asked = {**TEXT, **IMAGES, "model": f"Qwen/Qwen3-VL-{name}-Instruct", "tier": "physics"}
        rows = {row["name"]: row for row in estimate(**asked).breakdown}
        return float(rows[f"{ENCODER}attention"]["time_s"])

    taken_s = attention_s()
    monkeypatch.setattr(graph_kernels, "_FLASH_ATTENTION", tuple(range(64, 257)))
    assert taken_s == pytest.approx(padded * attention_s(), rel=1e-9)


def test_modes_encode_in_the_prefill() -> None:
    load = {"concurrency": 4, "mode": "aggregated", "method": "formula"}
    assert _encoding_s(estimate(**TEXT, **IMAGES, **load)) > 0.0
    pools = {"mode": "disaggregated", "concurrency": 4, "method": "formula"}
    assert _encoding_s(estimate(**TEXT, **IMAGES, **pools)) > 0.0


def test_simulated_requests_have_the_tokens_and_the_encoder() -> None:
    load: dict[str, Any] = {"request_rate": 0.01, "num_requests": 4, "measured_at": "engine"}
    text = simulate(**{**TEXT, **load, "isl": PROMPT})
    images = simulate(**{**TEXT, **IMAGES, **load})
    added_s = images.results["ttft_s"]["mean"] - text.results["ttft_s"]["mean"]
    assert added_s == pytest.approx(_encoding_s(images.answer), rel=0.03)


def test_no_images_are_the_question_without() -> None:
    assert estimate(**TEXT, images=0).results == estimate(**TEXT).results
    assert estimate(**{**TEXT, "model": "Qwen/Qwen3-8B"}, images=0).results


def test_answers_say_that_encoder_times_are_not_validated() -> None:
    def warned(answer: Answer) -> bool:
        return any("compared with no measurement" in text for text in answer.warnings)

    load: dict[str, Any] = {"request_rate": 0.01, "num_requests": 4}
    assert warned(estimate(**TEXT, **IMAGES))
    assert warned(simulate(**TEXT, **IMAGES, **load).answer)
    assert warned(search(**TEXT, **IMAGES, gpus=1).answer)
    assert not warned(estimate(**TEXT))


def test_results_have_the_tokens_of_images_and_the_time_of_the_encoder() -> None:
    load: dict[str, Any] = {"request_rate": 0.01, "num_requests": 4}
    single = estimate(**TEXT, **IMAGES)
    assert single.results["encoder_time_s"] == pytest.approx(_encoding_s(single), rel=1e-9)
    cut = estimate(**TEXT, **IMAGES, max_num_batched_tokens=1148)
    assert cut.results["encoder_time_s"] == pytest.approx(4.0 * _encoding_s(cut), rel=1e-9)
    for answer in (
        single,
        simulate(**TEXT, **IMAGES, **load).answer,
        search(**TEXT, **IMAGES, gpus=1).answer,
    ):
        assert answer.results["image_tokens"] == PROMPT - 512
        line = question_lines(answer.to_dict())[-1]
        assert "4,592 tokens in (512 and 2 images of 2,040)" in line
