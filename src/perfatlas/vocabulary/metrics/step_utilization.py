"""Metrics of how much of the hardware a step uses: `estimate`."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics.metric import Metric, reported_by
from perfatlas.vocabulary.metrics.serving import ESTIMATE

UTILIZATION: Final = reported_by(
    Metric(
        name="prefill_mfu",
        label="MFU of a full prefill chunk",
        short="prefill MFU",
        shown="share",
        better="higher",
        description=(
            "Model FLOP utilization of a full prefill chunk on one GPU: FLOP of its tokens with"
            " causal attention over its time at the dense peak of the GEMM format."
        ),
    ),
    Metric(
        name="prefill_mbu",
        label="MBU of a full prefill chunk",
        short="prefill MBU",
        shown="share",
        better="higher",
        description=(
            "Model bandwidth utilization of a full prefill chunk on one GPU: bytes of weights and"
            " KV cache that it reads over its time at the memory bandwidth."
        ),
    ),
    Metric(
        name="decode_mfu",
        label="MFU of a decode step",
        short="decode MFU",
        shown="share",
        better="higher",
        description=(
            "Model FLOP utilization of a decode step on one GPU: FLOP of its tokens, without the"
            " padding of the batch, over its time at the dense peak of the GEMM format."
        ),
    ),
    Metric(
        name="decode_mbu",
        label="MBU of a decode step",
        short="decode MBU",
        shown="share",
        better="higher",
        description=(
            "Model bandwidth utilization of a decode step on one GPU: bytes of weights and"
            " KV cache that it reads over its time at the memory bandwidth."
        ),
    ),
    verbs=ESTIMATE,
)
