"""Fields of the accuracy of number formats."""

from __future__ import annotations

from typing import Annotated, Literal

from perfatlas.vocabulary.fields.conditions import AnySet
from perfatlas.vocabulary.fields.rows import Row, Text, group
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

    gemm_format: Annotated[
        FormatName | None,
        Row(
            "Number format of weights and matrix products; fp8 means fp8_static.",
            default="the checkpoint's",
            elsewhere=("format", "quantization", "dtype"),
        ),
    ] = None
    kv_format: Annotated[
        FormatName | None,
        Row("Number format of the KV cache.", default="the checkpoint's"),
    ] = None


@group("Accuracy", 8)
class Quantization:
    """How a model was quantized, and what its accuracy is measured with."""

    quantization_method: Annotated[
        QuantizationMethod | None,
        Row(
            "Quantization method: rtn (round to nearest), tuned_rtn (searched scales), gptq, awq,"
            " autoround, smoothquant, rotation, qat (training), ptq (a vendor's calibrated"
            " checkpoint).",
            default="ptq",
            needs=AnySet("benchmark", example="mmlu"),
        ),
    ] = None
    benchmark: Annotated[
        Annotated[str, Text(64)] | None,
        Row(
            "Benchmark whose change by the number formats is predicted as accuracy_delta, such as"
            " mmlu, gsm8k, gpqa, humaneval or ruler.",
            default="mmlu where accuracy is asked for",
        ),
    ] = None
