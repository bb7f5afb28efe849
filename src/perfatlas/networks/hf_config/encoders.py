"""Text encoders by their config: embedding models, rerankers, classifiers, as a graph.

Source: the model classes of transformers 5.24.0, whose parameters tests/networks/oracle counts.
Limits: Encoders with disentangled, sparse or convolved attention are not supported.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from perfatlas.networks.hf_config.decoder import Family, completed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.networks.graphs.network import GraphNetwork
    from perfatlas.networks.hf_config.fields import Fields

DEFAULT_LENGTH: Final = 512  # Tokens of a sequence where nothing else is asked for
TOKENS: Final = "batch * sequence_length"


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """What the configs of some model_types never state."""

    names: Mapping[str, str] = field(default_factory=dict)  # Name used here by key
    positions: bool = True  # Whether positions are a table; otherwise they are rotated
    reserved: int = 0  # Rows of that table beyond the longest sequence
    types: bool = True  # Whether types of segments have a table
    embedding_norm: bool = True
    final_norm: bool = False
    first_norm: bool = True  # Whether the first layer normalizes its input
    gated: bool = False
    bias: bool = True  # Of products
    norm_bias: bool = True
    pooler: bool = True  # Whether a product of the first token follows the layers


_BERT: Final = Encoder()
_ROBERTA: Final = Encoder(reserved=2)
ENCODERS: Final[Mapping[str, Encoder]] = {
    **dict.fromkeys(("bert", "ernie"), _BERT),
    **dict.fromkeys(("roberta", "xlm-roberta", "camembert", "data2vec-text"), _ROBERTA),
    "roberta-prelayernorm": replace(_ROBERTA, final_norm=True),
    "xlm-roberta-xl": replace(_ROBERTA, embedding_norm=False, final_norm=True),
    "megatron-bert": replace(_BERT, embedding_norm=False, final_norm=True),
    "electra": replace(_BERT, pooler=False),
    "distilbert": Encoder(
        names={
            "dim": "hidden_size",
            "hidden_dim": "intermediate_size",
            "n_heads": "num_attention_heads",
            "n_layers": "num_hidden_layers",
        },
        types=False,
        pooler=False,
    ),
    "mpnet": replace(_ROBERTA, reserved=0, types=False),
    **dict.fromkeys(("jina_embeddings_v3", "roformer"), replace(_BERT, positions=False)),
    **dict.fromkeys(("gte", "new"), replace(_BERT, positions=False, gated=True)),
    "nomic_bert": replace(_BERT, positions=False, gated=True, bias=False, pooler=False),
    "modernbert": Encoder(
        positions=False,
        types=False,
        final_norm=True,
        first_norm=False,
        gated=True,
        bias=False,
        norm_bias=False,
        pooler=False,
    ),
}


def read_encoder(fields: Fields, encoder: Encoder) -> GraphNetwork:
    """Return the graph of an encoder, whose item is a sequence.

    It ends with the LM head if `architectures` names a masked language model, and with a
    classifier if it names one of sequences.

    Raises:
        InvalidSpecError: A field is missing, has the wrong type or contradicts another.
    """
    from perfatlas.networks.graphs.reader import read_graph  # not loaded for language models

    stated = {"position_embedding_type": "absolute"} if encoder.positions else {}
    fields, warnings = completed(fields, Family(names=encoder.names, only=stated))
    unknown = tuple(name for name in ("num_experts", "moe_every_n_layers") if fields.has(name))
    if unknown:
        raise fields.unsupported(unknown[0], "encoders with experts are not supported")
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    depth, width = fields.num_layers(), fields.integer("intermediate_size")
    embedding = fields.integer("embedding_size", default=hidden)
    longest = fields.tokens("max_position_embeddings", default=DEFAULT_LENGTH) - encoder.reserved
    if hidden % heads:
        raise fields.invalid("hidden_size", f"must be a multiple of num_attention_heads = {heads}")
    if longest < 1:
        rule = f"must exceed the {encoder.reserved} rows that no token has"
        raise fields.invalid("max_position_embeddings", rule)
    window, period = (
        fields.tokens("sliding_window"),
        fields.integer("sliding_window_pattern", default=3),
    )
    local = depth - -(-depth // period) if window else 0  # ModernBERT: every third is global
    bias, inner = int(encoder.bias), width * (2 if encoder.gated else 1)
    norm_width = 2 if encoder.norm_bias else 1
    rows = [fields.integer("vocab_size")]
    rows += [longest + encoder.reserved] if encoder.positions else []
    rows += [fields.integer("type_vocab_size", default=2, minimum=0)] if encoder.types else []
    layer = {"attention": (4, hidden, hidden), "up": (1, inner, hidden), "down": (1, hidden, width)}
    norms = 2 * depth - (not encoder.first_norm) + encoder.final_norm
    parameters = (
        (sum(rows) + norm_width * encoder.embedding_norm) * embedding
        + depth * sum(count * n * (k + bias) for count, n, k in layer.values())
        + norms * norm_width * hidden
    )

    def streaming(kind: str, read: int, write: int, count: int, after: str) -> dict[str, object]:
        moved = {"read": f"{read} * {TOKENS}", "write": f"{write} * {TOKENS}"}
        return {"kind": kind, "count": count, "after": after, **moved}

    def norm(columns: int, count: int, after: str) -> dict[str, object]:
        read = f"{columns} * {TOKENS}"
        return {"kind": "norm", "count": count, "read": read, "row": columns, "after": after}

    def linear(part: str) -> dict[str, object]:
        count, n, k = layer[part]
        return {"kind": "linear", "count": depth * count, "m": TOKENS, "n": n, "k": k}

    operators: list[dict[str, object]] = [
        {"kind": "embedding", "rows": TOKENS, "width": embedding},
        streaming("add", len(rows) * embedding, embedding, 1, "embedding"),
        *([norm(embedding, 1, "add")] if encoder.embedding_norm else []),
    ]
    if embedding != hidden:
        operators.append({"kind": "linear", "m": TOKENS, "n": hidden, "k": embedding})
        parameters += (embedding + bias) * hidden
    lengths = {"q_len": "sequence_length", "kv_len": "sequence_length"}
    nearby = lengths | {"kv_len": f"min(sequence_length, {window})"}
    shape = {"num_heads": heads, "head_dim": hidden // heads}
    operators += [
        linear("attention"),
        {"kind": "attention", "count": depth - local, **lengths, **shape},
        *([{"kind": "attention", "count": local, **nearby, **shape}] if local else []),
        streaming("add", 2 * hidden, hidden, 2 * depth, "linear"),
        norm(hidden, norms, "add"),
        linear("up"),
        streaming("activation", inner, width, depth, "linear"),
        linear("down"),
    ]
    for m, n, k, added in _after_layers(fields, encoder, hidden, embedding):
        operators.append({"kind": "linear", "m": m, "n": n, "k": k})
        parameters += added
    return read_graph(
        {
            "name": fields.text("model_type"),
            "item": "sequence",
            "source": fields.origin[:300],
            "parameters": parameters,
            "sizes": {"sequence_length": min(DEFAULT_LENGTH, longest)},
            "limits": {"sequence_length": {"most": longest}},
            "notes": list(warnings),
            "operators": operators,
        },
        fields.origin,
    )


def _after_layers(
    fields: Fields, encoder: Encoder, hidden: int, embedding: int
) -> list[tuple[str, int, int, int]]:
    """Return the products behind the layers: rows, columns, inner size, and their parameters."""
    built = fields.texts("architectures")
    bias, vocab = int(encoder.norm_bias), fields.integer("vocab_size")
    pooled = ("batch", hidden, hidden, hidden * (hidden + bias))
    if built and built[0].endswith("ForMaskedLM"):
        dense = (embedding * (hidden + bias)) + (1 + bias) * embedding
        return [(TOKENS, embedding, hidden, dense), (TOKENS, vocab, embedding, vocab)]  # tied
    if built and built[0].endswith("ForSequenceClassification"):
        named = fields.child("id2label")
        labels = fields.integer("num_labels", default=len(named.values) if named else 2)
        return [pooled, ("batch", labels, hidden, labels * (hidden + 1))]
    return [pooled] if encoder.pooler else []
