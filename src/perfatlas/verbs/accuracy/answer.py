"""`accuracy`: the change of a benchmark and of perplexity by number formats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perfatlas.answer import Answer, Evidence
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.quantization import DEFAULT_BENCHMARK, DEFAULT_METHOD, FIT_SOURCE
from perfatlas.scenario.deployments import accuracy_results, quantized_model
from perfatlas.scenario.fields import Answered, InputFields, answer_columns, complete_scenario
from perfatlas.verbs.accuracy.metrics import RESULTS
from perfatlas.vocabulary.fields import ModelChoice, Quantization, QuantizedFormats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.quantization import Change
    from perfatlas.scenario.deployments import QuantizedModel


class AccuracyInputs(InputFields, Quantization, QuantizedFormats, ModelChoice):
    """A model, its number formats and how it was quantized."""


@signature_of("accuracy")
def accuracy(**fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the change of a benchmark and of perplexity by number formats.

    Args:
        **fields: Fields of `perfatlas accuracy`.

    Raises:
        InvalidSpecError: A field is missing or unknown, or there is no such model or benchmark.
        UnsupportedError: There is no such format.

    Example:
        >>> from perfatlas.verbs.accuracy import accuracy
        >>> answer = accuracy(model="meta-llama/Llama-3.1-8B", gemm_format="nvfp4")
        >>> answer.results["accuracy_delta"] < 0.0, answer.results["standing"]
        (True, 'published')
    """
    inputs = AccuracyInputs.read(fields)
    found = _model(inputs)
    return Answer(
        command="accuracy",
        scenario=complete_scenario(
            verb_fields("accuracy"),
            inputs,
            gemm_format=found.asked.gemm,
            kv_format=found.asked.kv,
            quantization_method=found.asked.method,
            benchmark=found.asked.benchmark,
        ),
        results=_results(found),
        breakdown=[],
        evidence=Evidence(
            tier="pairs",
            assumptions=(found.change.note, *found.assumptions),
            sources=(FIT_SOURCE,),
        ),
        warnings=_warnings(found.change),
    )


def accuracy_columns(table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table of number formats.

    Args:
        table: Columns of fields by name; None and empty text mean "not given".

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None for missing values.
    """
    return answer_columns(table, AccuracyInputs, _rows, varying=())


def _rows(inputs: Sequence[AccuracyInputs]) -> Answered:
    rows = [_model(accuracy_inputs) for accuracy_inputs in inputs]
    return Answered.of([(_results(row), _warnings(row.change)) for row in rows])


def _model(inputs: AccuracyInputs) -> QuantizedModel:
    return quantized_model(
        inputs.model,
        (inputs.gemm_format, inputs.kv_format),
        inputs.quantization_method or DEFAULT_METHOD,
        inputs.benchmark or DEFAULT_BENCHMARK,
    )


def _results(found: QuantizedModel) -> dict[str, Any]:
    values = accuracy_results(found)
    return {name: values[name] for name in RESULTS}


def _warnings(change: Change) -> tuple[str, ...]:
    """Return why there are no values, or why the interval is wider."""
    return (change.note,) if change.standing in ("declined", "extrapolated") else ()
