"""Models with overrides: their parameters by hand, equal counts, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import perfatlas
from perfatlas.networks import MODEL_FIELDS, resolve_model

DENSE = "Qwen/Qwen3-32B"
EXPERTS = "openai/gpt-oss-120b"
LATENT = "deepseek-ai/DeepSeek-V3"
WINDOWED = "google/gemma-3-27b-it"


def _total(text: str) -> int:
    return resolve_model(text).network.parameters().total


def test_parameters_of_changed_dimensions_by_hand() -> None:
    # k and v projections of 64 layers: 5,120 x 8 heads x 128 each; two heads are a quarter of them
    assert _total(DENSE) - _total(f"{DENSE}{{kv_heads=2}}") == 64 * 2 * 5120 * 6 * 128
    # gate, up and down of 64 layers
    assert _total(f"{DENSE}{{intermediate_size=25728}}") - _total(DENSE) == 64 * 3 * 5120 * 128
    # the down projection to the latent and the up projections of 128 heads of 128 + 128, the norm
    per_rank = 7168 + 128 * (128 + 128) + 1
    assert _total(LATENT) - _total(f"{LATENT}{{latent_rank=256}}") == 61 * 256 * per_rank


def test_cache_follows_kv_heads_and_latent_rank() -> None:
    asked: dict[str, Any] = {"system": "b200_sxm", "isl": 1024, "batch": 1, "tp": 1}
    full, half = (
        perfatlas.estimate(model=f"{DENSE}{{{inside}}}", **asked).results["memory"]["kv_bytes"]
        for inside in ("kv_heads=8", "kv_heads=4")
    )
    assert full == 2 * half


def test_groups_keep_their_shares_and_windows_stay_where_they_are() -> None:
    assert [g.count for g in resolve_model(f"{LATENT}{{layers=122}}").network.layers] == [6, 116]
    assert [g.count for g in resolve_model(f"{LATENT}{{layers=2}}").network.layers] == [1, 1]
    layers = resolve_model(f"{WINDOWED}{{window=4096}}").network.layers
    assert [vars(vars(group)["mixer"])["window"] for group in layers] == [4096, 0]


@given(st.sampled_from((DENSE, EXPERTS)), st.integers(8, 128))
def test_an_override_with_the_own_value_changes_nothing(base: str, layers: int) -> None:
    own = resolve_model(base).network
    same = resolve_model(f"{base}{{layers={own.num_layers},hidden_size={own.hidden_size}}}")
    assert same.network == own
    longer = resolve_model(f"{base}{{layers={layers + 1}}}").network.parameters().total
    assert longer > _total(f"{base}{{layers={layers}}}")


@pytest.mark.parametrize(
    ("base", "inside", "solved"),
    [
        (DENSE, "layers=48,equal=parameters,solve=intermediate_size", "intermediate_size"),
        (DENSE, "kv_heads=64,equal=flop,solve=intermediate_size", "intermediate_size"),
        (DENSE, "hidden_size=4096,equal=flop,solve=layers", "layers"),
        (EXPERTS, "expert_intermediate_size=1440,equal=parameters,solve=experts", "experts"),
        (
            EXPERTS,
            "expert_intermediate_size=1440,equal=flop,solve=experts_per_token",
            "experts_per",
        ),
        (LATENT, "layers=40,equal=parameters,solve=experts", "experts"),
    ],
)
def test_a_solved_field_keeps_the_count(base: str, inside: str, solved: str) -> None:
    model = resolve_model(f"{base}{{{inside}}}")
    assert solved in model.name
    assert resolve_model(model.name).name == model.name
    before, after = (one.network.parameters() for one in (resolve_model(base), model))
    if "equal=parameters" in inside:
        assert after.total == pytest.approx(before.total, rel=0.02)
    else:
        linear = [one.active - one.embedding for one in (before, after)]
        assert linear[1] == pytest.approx(linear[0], rel=0.02)
    assert any(note.startswith(solved) and "keeps" in note for note in model.network.notes)


def test_a_file_takes_overrides_too(tmp_path: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "vocab_size": 100,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config), "utf-8")
    model = resolve_model(f"{path}{{layers=2}}")
    assert (model.network.num_layers, model.base) == (2, str(path))


def test_every_field_changes_a_model_that_has_it() -> None:
    values = {"window": 2048}
    for name in MODEL_FIELDS:
        base = LATENT if name == "latent_rank" else WINDOWED if name == "window" else EXPERTS
        base = DENSE if name == "intermediate_size" else base
        text = f"{base}{{{name}={values.get(name, 32)}}}"
        own = resolve_model(base).network
        changed = resolve_model(text).network
        assert (changed.layers, changed.hidden_size, changed.vocab_size) != (
            own.layers,
            own.hidden_size,
            own.vocab_size,
        )
