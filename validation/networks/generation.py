"""The pass of an encoder-decoder that generates one token, with cached keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from validation.networks.parts import BATCH, Part, half_inputs, tokens, values

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from validation.networks.parts import Built, Module, Tensor

KV_LENGTH: Final = "kv_length"
KEYS: Final = 64  # of the example


def decoder_pass(build: Callable[[], Built], layers: int, encoded: int, name: str = "") -> Part:
    """Return the decoder over one token, and its head.

    Keys and values of the token are written in place after those of earlier tokens; those of the
    encoder are cached.

    Args:
        build: Returns the whole network.
        layers: Layers of its decoder.
        encoded: Positions of the encoder.
        name: Their size, "" where it is fixed.
    """
    places = range(2 * layers)
    of_source = {2: name} if name else {}
    return Part(
        build=lambda: _built(build()[0], layers, encoded),
        sizes={
            "ids": {0: BATCH},
            **{f"own_{index}": {0: BATCH, 2: KV_LENGTH} for index in places},
            **{f"cross_{index}": {0: BATCH, **of_source} for index in places},
            "encoded": {0: BATCH, **({1: name} if name else {})},
        },
        stored=0,
    )


def _built(whole: Module, layers: int, encoded: int) -> Built:
    import torch
    from transformers.cache_utils import EncoderDecoderCache

    config = whole.config
    heads = config.num_attention_heads
    width = getattr(config, "d_kv", config.d_model // heads)

    def cached(length: int) -> tuple[Tensor, ...]:
        return tuple(values(2, heads, length, width) for _ in range(2 * layers))

    def forward(
        self: Module,
        ids: Tensor,
        own: Sequence[Tensor],
        cross: Sequence[Tensor],
        encoded: Tensor,
    ) -> Tensor:
        decoder, head = self.children()
        both = EncoderDecoderCache(_cache(own), _cache(cross))
        both.is_updated = dict.fromkeys(range(layers), True)
        found = decoder(input_ids=ids, encoder_hidden_states=encoded, cache=both, use_cache=True)
        return head(found.last_hidden_state)

    inputs = {
        "ids": tokens(2, 1),
        "own": cached(KEYS),
        "cross": cached(encoded),
        "encoded": values(2, encoded, config.d_model),
    }
    parts = (whole.get_decoder(), whole.get_output_embeddings())
    step = type("DecoderPass", (torch.nn.ModuleList,), {"forward": forward})
    return step(parts).eval(), half_inputs(inputs)


def _cache(tensors: Sequence[Tensor]) -> Module:
    """Return a cache whose last position is that of the new token."""
    from transformers.cache_utils import Cache, DynamicLayer

    def update(
        self: Module, keys: Tensor, held: Tensor, *_: object, **__: object
    ) -> tuple[Tensor, Tensor]:
        for cached, new in ((self.keys, keys), (self.values, held)):
            cached.narrow(2, cached.shape[2] - 1, 1).copy_(new)
        return self.keys, self.values

    def length(self: Module) -> Tensor:
        return self.keys.shape[2] - 1

    kind = type("InPlace", (DynamicLayer,), {"update": update, "get_seq_length": length})
    layers = []
    for index in range(0, len(tensors), 2):
        layer = kind()
        layer.keys, layer.values = tensors[index : index + 2]
        layer.is_initialized = True
        layers.append(layer)
    return Cache(layers=layers)
