"""Fields of the accuracy of number formats."""

from __future__ import annotations

from typing import Annotated, Literal

from perfatlas.vocabulary.fields.conditions import AnySet
from perfatlas.vocabulary.fields.rows import Text, group
from perfatlas.vocabulary.fields.subject import FormatName

QuantizationMethod = Literal[
    "rtn",
    "tuned_rtn",
    "gptq",
    "awq",
    "autoround",
    "smoothquant",
    "rotation",
    "qat",
    "ptq",
]


@group("Formats", 4)
class QuantizedFormats:
    """Number formats of weights, activations and cache; the defaults are the checkpoint's."""

    gemm_format: FormatName | None = None
    kv_format: FormatName | None = None


@group("Accuracy", 8)
class Quantization:
    """How a model was quantized, and what its accuracy is measured with."""

    quantization_method: Annotated[
        QuantizationMethod | None, AnySet("benchmark", example="mmlu")
    ] = None
    benchmark: Annotated[str, Text(64)] | None = None
