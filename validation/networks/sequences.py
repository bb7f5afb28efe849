"""Encoders, encoder-decoders, speech and recommenders of the catalog."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

from validation.networks.generation import decoder_pass
from validation.networks.parts import BATCH, Part, Row, hugging_face, tokens, values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from validation.networks.parts import Built, Module, Tensor

LARGE: Final = {"hidden_size": 1024, "intermediate_size": 4096}
LARGE_LAYERS: Final = {"num_hidden_layers": 24, "num_attention_heads": 16}
WHISPER: Final = {
    "d_model": 1280,
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 32),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 20),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 5120),
    "num_mel_bins": 128,
    "vocab_size": 51866,
}
# Rows of the tables of DLRM-DCNv2 and the ids that each sample has (MLPerf, Criteo multi-hot).
TABLES: Final = (
    *(40_000_000, 39_060, 17_295, 7_424, 20_265, 3, 7_122, 1_543, 63, 40_000_000, 3_067_956),
    *(405_282, 10, 2_209, 11_938, 155, 4, 976, 14, 40_000_000, 40_000_000, 40_000_000, 590_152),
    *(12_973, 108, 36),
)
HOTS: Final = (
    *(3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 100, 27, 10, 3, 1, 1),
)


def _whisper_encoder() -> Built:
    import transformers
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config: Any = transformers.WhisperConfig(**WHISPER, attn_implementation="sdpa")
    return WhisperEncoder(config).eval(), {"input_features": values(2, 128, 3000)}


def _dlrm() -> Built:
    """Return MLPerf's DLRM-DCNv2: 26 tables of width 128, three low-rank crosses, two MLPs."""
    import torch
    from torch import nn

    def perceptron(*widths: int) -> nn.Sequential:
        pairs = itertools.pairwise(widths)
        return nn.Sequential(*(one for a, b in pairs for one in (nn.Linear(a, b), nn.ReLU())))

    width, crossed = 128, 27 * 128

    tables = [nn.EmbeddingBag(rows, width, mode="sum") for rows in TABLES]
    down = [nn.Linear(crossed, 512, bias=False) for _ in range(3)]
    up = [nn.Linear(512, crossed) for _ in range(3)]
    bottom = perceptron(13, 512, 256, width)
    top = nn.Sequential(perceptron(crossed, 1024, 1024, 512, 256), nn.Linear(256, 1))

    def forward(self: Module, dense: Tensor, *ids: Tensor) -> Tensor:
        layers = list(self.children())
        bags = [table(one) for table, one in zip(layers[:26], ids, strict=True)]
        first = torch.cat((layers[32](dense), *bags), 1)
        x = first
        for low, high in zip(layers[26:29], layers[29:32], strict=True):
            x = first * high(low(x)) + x
        return layers[33](x)

    inputs = (values(64, 13), *(tokens(64, hot) for hot in HOTS))
    recommender = type("Recommender", (nn.ModuleList,), {"forward": forward})
    return recommender((*tables, *down, *up, bottom, top)).eval(), inputs


def _t5(name: str, width: int, inner: int, layers: int, heads: int) -> Row:
    build = hugging_face(
        "T5ForConditionalGeneration",
        "T5Config",
        lambda: {"input_ids": tokens(2, 512), "decoder_input_ids": tokens(2, 128)},
        d_model=width,
        d_ff=inner,
        num_layers=layers,
        num_heads=heads,
        use_cache=False,
    )
    sizes = {
        "input_ids": {0: BATCH, 1: "sequence_length"},
        "decoder_input_ids": {0: BATCH, 1: "target_length"},
    }
    return Row(
        item="sequence",
        source=f"T5 (arXiv 1910.10683); google-t5/{name} config.json",
        parts=(Part(build=build, sizes=sizes),),
        sizes={"sequence_length": 512, "target_length": 128},
        decoder=decoder_pass(build, layers, 512, "sequence_length"),
    )


_WHISPER: Final = hugging_face(
    "WhisperForConditionalGeneration",
    "WhisperConfig",
    lambda: {"input_features": values(2, 128, 3000), "decoder_input_ids": tokens(2, 64)},
    **WHISPER,
    use_cache=False,
)
ROWS: Final[Mapping[str, Row]] = {
    "bert-base": Row(
        item="sequence",
        source="BERT (arXiv 1810.04805), span head; google-bert/bert-base-uncased config.json",
        parts=(
            Part(
                build=hugging_face(
                    "BertForQuestionAnswering",
                    "BertConfig",
                    lambda: {"input_ids": tokens(2, 128), "attention_mask": tokens(2, 128)},
                ),
                sizes={
                    name: {0: BATCH, 1: "sequence_length"}
                    for name in ("input_ids", "attention_mask")
                },
            ),
        ),
        sizes={"sequence_length": 384},
        limits={"sequence_length": {"most": 512}},  # max_position_embeddings
    ),
    "bert-large": Row(
        item="sequence",
        source="BERT (arXiv 1810.04805), span head; google-bert/bert-large-uncased config.json",
        parts=(
            Part(
                build=hugging_face(
                    "BertForQuestionAnswering",
                    "BertConfig",
                    lambda: {"input_ids": tokens(2, 128), "attention_mask": tokens(2, 128)},
                    **LARGE,
                    **LARGE_LAYERS,
                ),
                sizes={
                    name: {0: BATCH, 1: "sequence_length"}
                    for name in ("input_ids", "attention_mask")
                },
            ),
        ),
        sizes={"sequence_length": 384},
        limits={"sequence_length": {"most": 512}},  # max_position_embeddings
    ),
    "t5-base": _t5("t5-base", 768, 3072, 12, 12),
    "t5-large": _t5("t5-large", 1024, 4096, 24, 16),
    "clip-vit-large-14": Row(
        item="image",
        source="CLIP (arXiv 2103.00020), image tower; openai/clip-vit-large-patch14 config.json",
        parts=(
            Part(
                build=hugging_face(
                    "CLIPVisionModelWithProjection",
                    "CLIPVisionConfig",
                    lambda: {"pixel_values": values(2, 3, 224, 224)},
                    **LARGE,
                    **LARGE_LAYERS,
                    patch_size=14,
                    projection_dim=768,
                ),
                sizes={"pixel_values": {0: BATCH}},
            ),
        ),
        sizes={},
    ),
    "wav2vec2-large": Row(
        item="clip of 16 kHz",
        source="wav2vec 2.0 (arXiv 2006.11477); facebook/wav2vec2-large-960h config.json",
        parts=(
            Part(
                build=hugging_face(
                    "Wav2Vec2ForCTC",
                    "Wav2Vec2Config",
                    lambda: {"input_values": values(2, 160_000)},
                    **LARGE,
                    **LARGE_LAYERS,
                    feat_extract_norm="layer",
                    do_stable_layer_norm=True,
                ),
                sizes={"input_values": {0: BATCH}},
            ),
        ),
        sizes={},
    ),
    "whisper-large-v3-encoder": Row(
        item="clip of 30 s",
        source="Whisper (arXiv 2212.04356), encoder; openai/whisper-large-v3 config.json",
        parts=(Part(build=_whisper_encoder, sizes={"input_features": {0: BATCH}}),),
        sizes={},
    ),
    "whisper-large-v3": Row(
        item="clip of 30 s",
        source="Whisper (arXiv 2212.04356); openai/whisper-large-v3 config.json",
        parts=(
            Part(
                build=_WHISPER,
                sizes={
                    "input_features": {0: BATCH},
                    "decoder_input_ids": {0: BATCH, 1: "target_length"},
                },
            ),
        ),
        sizes={"target_length": 128},
        limits={"target_length": {"most": 448}},  # max_target_positions
        decoder=decoder_pass(_WHISPER, 32, 1500),
    ),
    "dlrm-dcnv2": Row(
        item="sample",
        source="DLRM-DCNv2 of MLPerf (mlcommons/inference recommendation/dlrm_v2), Criteo",
        parts=(Part(build=_dlrm, sizes={}),),
        sizes={},
    ),
}
_CACHE: Final = "block cache: DualCache of Fast-dLLM (arXiv 2505.22618)"
# Diffusion language models: source, and what their config.json states.
CONFIGS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "llada-8b": (
        f"LLaDA (arXiv 2502.09992); GSAI-ML/LLaDA-8B-Base config.json and generate.py; {_CACHE}",
        {
            "model_type": "llada",
            "d_model": 4096,
            "n_heads": 32,
            "n_kv_heads": 32,
            "n_layers": 32,
            "mlp_hidden_size": 12288,
            "embedding_size": 126464,
            "max_sequence_length": 4096,
            "weight_tying": False,
        },
    ),
    "dream-7b": (
        f"Dream 7B (arXiv 2508.15487); Dream-org/Dream-v0-Base-7B config.json; {_CACHE}",
        {
            "model_type": "Dream",
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_attention_heads": 28,
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
            "max_position_embeddings": 131072,
            "vocab_size": 152064,
            "tie_word_embeddings": False,
        },
    ),
}
