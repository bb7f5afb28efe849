"""Cache of a sequence: key-value rows, latent rows, index keys, recurrent state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.networks.contract import CacheLayout
from perfatlas.networks.key_index import INDEX_KEY_BYTES, INDEX_SCALE_BYTES
from perfatlas.networks.layers import (
    CompressedAttention,
    GatedDeltaNet,
    GqaAttention,
    Mamba1,
    Mamba2,
    MlaAttention,
)
from perfatlas.networks.recurrent_mixers import STATE_BYTES
from perfatlas.operators import ACTIVATION_BYTES

if TYPE_CHECKING:
    from perfatlas.networks.language_model import LanguageModel
    from perfatlas.networks.layers import Mixer


def cache_layouts(
    architecture: LanguageModel, kv_bytes_per_element: float
) -> tuple[CacheLayout, ...]:
    """Return the cache of every group of layers that has one.

    Args:
        kv_bytes_per_element: Bytes of a cached key, value or latent element, scales included.

    Source: GQA: arXiv 2305.13245; latent row kv_lora_rank + rope: arXiv 2405.04434 section 2.1.3;
        index keys in fp8 with one fp32 scale: DeepSeek-V3.2-Exp report and inference code; fp32
        recurrent states and 16-bit convolution states: config.json of the hybrids.
    Limits: A windowed layer counts exactly its window; engines without a separate pool for
        windowed layers keep every token instead. Alignment and paging depend on the engine.

    Example:
        >>> from perfatlas.networks import Architecture, GqaAttention, LayerGroup
        >>> attention = GqaAttention(num_heads=64, num_kv_heads=8, head_dim=128,
        ...     value_head_dim=128)
        >>> model = Architecture(model_type="llama", hidden_size=8192, vocab_size=128256,
        ...     tie_word_embeddings=False,
        ...     layers=(LayerGroup(count=80, mixer=attention, ffn=None, norms=1),))
        >>> model.cache_layouts(2.0)[0].bytes_per_token  # 8 heads x (128 + 128) x 2
        4096.0
    """
    return tuple(
        layout
        for group in architecture.layers
        for layout in _layouts(group.mixer, group.count, kv_bytes_per_element)
    )


def _layouts(mixer: Mixer | None, layers: int, element_bytes: float) -> tuple[CacheLayout, ...]:
    match mixer:
        case None:
            return ()
        case GqaAttention():
            return _head_layouts(mixer, layers, element_bytes)
        case MlaAttention():
            return _latent_layouts(mixer, layers, element_bytes)
        case CompressedAttention():
            return _compressed_layouts(mixer, layers, element_bytes)
        case GatedDeltaNet() | Mamba2() | Mamba1():
            return (_state_layout(mixer, layers),)


def _head_layouts(
    mixer: GqaAttention, layers: int, element_bytes: float
) -> tuple[CacheLayout, ...]:
    width = mixer.num_kv_heads * (mixer.head_dim + mixer.value_head_dim)
    rows = CacheLayout(
        kind="attention",
        layers=layers,
        bytes_per_token=width * element_bytes,
        token_limit=mixer.window,
        divided_by=mixer.num_kv_heads,
    )
    if mixer.indexer is None:
        return (rows,)
    key_bytes = mixer.indexer.head_dim * ACTIVATION_BYTES
    return rows, CacheLayout(kind="index", layers=layers, bytes_per_token=key_bytes)


def _latent_layouts(
    mixer: MlaAttention, layers: int, element_bytes: float
) -> tuple[CacheLayout, ...]:
    row = CacheLayout(
        kind="latent",
        layers=layers,
        bytes_per_token=(mixer.kv_lora_rank + mixer.rope_dim) * element_bytes,
    )
    if mixer.indexer is None or mixer.indexer.shared:
        return (row,)
    key_bytes = mixer.indexer.head_dim * INDEX_KEY_BYTES + INDEX_SCALE_BYTES
    return row, CacheLayout(kind="index", layers=layers, bytes_per_token=key_bytes)


def _compressed_layouts(
    mixer: CompressedAttention, layers: int, element_bytes: float
) -> tuple[CacheLayout, ...]:
    row_bytes = mixer.head_dim * element_bytes
    recent = CacheLayout(
        kind="latent", layers=layers, bytes_per_token=row_bytes, token_limit=mixer.window
    )
    if not mixer.ratio:
        return (recent,)

    def compressed(kind: str, row_bytes: float, width: int) -> CacheLayout:
        # a compressor sums values and scores of each series in fp32
        return CacheLayout(
            kind=kind,
            layers=layers,
            bytes_per_token=row_bytes / mixer.ratio,
            tokens_per_row=mixer.ratio,
            state_bytes_per_token=mixer.series * width * 2 * STATE_BYTES,
            state_tokens=mixer.series * mixer.ratio,
        )

    rows = compressed("latent", row_bytes, mixer.head_dim)
    if mixer.indexer is None:
        return recent, rows
    width = mixer.indexer.head_dim
    return recent, rows, compressed("index", width * INDEX_KEY_BYTES + INDEX_SCALE_BYTES, width)


def _state_layout(mixer: GatedDeltaNet | Mamba2 | Mamba1, layers: int) -> CacheLayout:
    match mixer:
        case GatedDeltaNet():
            value = mixer.num_value_heads * mixer.value_head_dim
            channels = 2 * mixer.num_key_heads * mixer.key_head_dim + value
            state, heads = value * mixer.key_head_dim, mixer.num_value_heads
        case Mamba2():
            inner = mixer.num_heads * mixer.head_dim
            channels = inner + 2 * mixer.num_groups * mixer.state_size
            state, heads = inner * mixer.state_size, mixer.num_heads
        case Mamba1():
            channels = heads = mixer.intermediate_size
            state = channels * mixer.state_size
    conv_bytes = channels * (mixer.conv_kernel - 1) * ACTIVATION_BYTES
    return CacheLayout(
        kind="state",
        layers=layers,
        constant_bytes=state * STATE_BYTES + conv_bytes,
        divided_by=heads,
    )
