"""ChatGLM2, ChatGLM3 and GLM-4 in their first format (`trust_remote_code`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.networks.hf_config import decoder

if TYPE_CHECKING:
    from perfatlas.networks.architecture import Architecture
    from perfatlas.networks.hf_config.fields import Fields

MODEL_TYPES = ("chatglm",)


def read(fields: Fields) -> Architecture:
    """Return a ChatGLM: multi-query groups, a gated feed-forward, RMS norms.

    Source: configuration_chatglm.py and modeling_chatglm.py of THUDM/chatglm3-6b.
    """
    if first := fields.has("inner_hidden_size", "position_encoding_2d"):
        rule = "the first ChatGLM (a prefix language model) is not supported; ChatGLM2, 3 and 4 are"
        raise fields.unsupported(first, rule)
    bias = fields.boolean("add_bias_linear", default=False)
    stated: dict[str, object] = {
        "qkv_bias": bias or fields.boolean("add_qkv_bias", default=False),
        "output_bias": bias,
        "mlp_bias": bias,
        "num_key_value_heads": None,
    }
    if fields.boolean("multi_query_attention", default=False):
        stated["num_key_value_heads"] = fields.integer("multi_query_group_num", default=1)
    plain_norm = not fields.boolean("rmsnorm", default=True)
    return decoder.read(fields, decoder.Family(fixed=stated, gated=True, norm_bias=plain_norm))
