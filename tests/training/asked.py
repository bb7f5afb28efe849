"""Questions about training steps, for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from perfatlas import networks
from perfatlas.hardware import resolve_system
from perfatlas.training.layouts import Layouts
from perfatlas.training.profiles import TrainingEngine, resolve_training_engine
from perfatlas.training.step import TrainingQuestion

BF16: Final = networks.ModelFormats(gemm="bf16", moe="bf16", kv="bf16", attention="bf16")
SIZES: Final = ("tp", "pp", "cp", "dp", "ep", "expert_tp", "vpp", "micro_batch")


def layouts(**columns: Any) -> Layouts:  # noqa: ANN401 - columns of several types
    """Return layouts; sizes are 1 and other columns those of a small job if not given."""
    given = {
        **dict.fromkeys(SIZES, 1),
        "sequence_length": 4096,
        "global_batch": 16,
        "zero": 1,
        "recompute": 0,
        **columns,
    }
    given.setdefault("sequence_parallel", np.asarray(given["tp"]) > 1)
    arrays = dict(
        zip(given, np.broadcast_arrays(*(np.atleast_1d(v) for v in given.values())), strict=True)
    )
    whole, flags = ("zero", "recompute"), ("sequence_parallel",)
    return Layouts(
        **{
            name: column.astype(np.int64 if name in whole else np.bool_ if name in flags else float)
            for name, column in arrays.items()
        }
    )


def question(
    sizes: Layouts,
    *,
    model: str | networks.Network = "meta-llama/Llama-3.1-8B",
    system: str = "h100_sxm",
    engine: str | TrainingEngine = "ideal",
    **others: Any,  # noqa: ANN401 - fields of a question
) -> TrainingQuestion:
    """Return the question of some layouts."""
    return replace(
        TrainingQuestion(
            network=networks.resolve_model(model).network if isinstance(model, str) else model,
            engine=resolve_training_engine(engine) if isinstance(engine, str) else engine,
            formats=BF16,
            tier="auto",
            systems=(resolve_system(system),),
            index_C=np.zeros(sizes.size, np.int64),
            layouts=sizes,
        ),
        **others,
    )


def gpt(layers: int, hidden: int, heads: int, vocab: int = 51200) -> networks.Architecture:
    """Return a GPT-3 model: multi-head attention and two matrices of 4 hidden."""
    width = hidden // heads
    attention = networks.GqaAttention(
        num_heads=heads, num_kv_heads=heads, head_dim=width, value_head_dim=width
    )
    ffn = networks.DenseFfn(intermediate_size=4 * hidden, gated=False, bias=True)
    return networks.Architecture(
        model_type="gpt",
        hidden_size=hidden,
        vocab_size=vocab,
        tie_word_embeddings=True,
        layers=(networks.LayerGroup(count=layers, mixer=attention, ffn=ffn),),
        layer_norm_bias=True,
    )
