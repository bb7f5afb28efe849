"""`kernel gemm`, `attention`, `moe` and `op NAME`: one operator on one device."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from perfatlas import answer
from perfatlas.declarations import signature_of, verb_fields
from perfatlas.energy import ZEROS, board_energy
from perfatlas.operators import ATTENTION_BACKWARD, LatentAttention, Phase
from perfatlas.quantities import resolve_name
from perfatlas.scenario import operator_queries
from perfatlas.scenario.fields import (
    Answered,
    answer_columns,
    complete_scenario,
    within_disputed_ends,
)
from perfatlas.scenario.resolution import format_of
from perfatlas.vocabulary.fields import fields_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.measurements.calibrations import CalibrationMatch


NAMES: Final = ("conv", *operator_queries.ROWS, *operator_queries.LIBRARIES)  # of `kernel op`
CUDA_VENDOR: Final = "NVIDIA"
COLD: Final = "cold caches, one kernel of a {graph}"
STREAMED: Final = (
    "one kernel of a {graph}: activations that fit in the L2 cache are there, left by the kernel"
    " before; the roofline counts the rest, and weights and tables, which are cold; arithmetic is"
    " not counted"
)


@signature_of("kernel gemm")
def kernel_gemm(**fields: Any) -> answer.Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of one matrix product C[m, n] = A[m, k] W[k, n].

    Args:
        **fields: Fields of `perfatlas kernel gemm`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or has no effect.
        UnsupportedError: The device does not support the format, or there is no data for the tier.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_gemm
        >>> kernel_gemm(system="h200_sxm", m=4096, n=8192, k=8192).results["bound"]
        'compute'
    """
    return _answer("gemm", fields)


@signature_of("kernel attention")
def kernel_attention(**fields: Any) -> answer.Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of the attention of one layer on one device.

    Args:
        **fields: Fields of `perfatlas kernel attention`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: The device does not support the format, or there is no data for the tier.
    """
    return _answer("attention", fields)


@signature_of("kernel moe")
def kernel_moe(**fields: Any) -> answer.Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of the routed experts of one layer on one rank.

    Args:
        **fields: Fields of `perfatlas kernel moe`.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, or contradicts another.
        UnsupportedError: The device does not support the format, or there is no data for the tier.
    """
    return _answer("moe", fields)


def kernel_op(name: str, /, **fields: Any) -> answer.Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the time of one operator of networks, of analytics or of scientific computing.

    Args:
        name: conv, norm, softmax, embedding or elementwise; sort, scan, reduce, histogram, filter,
            join or group_by; spmv, stencil, fft or solve.
        **fields: Fields of `perfatlas kernel op NAME`.

    Raises:
        InvalidSpecError: No operator has the name, or a field is missing, unknown, out of its
            bounds, contradicts another, or has no effect.
        UnsupportedError: The device does not support the format, or there is no data for the tier.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_op
        >>> kernel_op("norm", system="h200_sxm", tokens=4096, width=8192).results["bound"]
        'memory'
        >>> image = {"channels": 256, "height": 56, "width": 56}
        >>> asked = {"system": "h200_sxm", "batch": 64, **image, "filters": 256, "kernel": 3}
        >>> kernel_op("conv", **asked).results["flop"] / 2  # 64 x 56 x 56 outputs of 256 x 2304
        118380036096.0
    """
    lists = "`perfatlas kernel op --help` lists all"
    known = resolve_name(str(name), NAMES, what="operator", lists=lists, shorten=False)
    return _answer(f"op {known}", fields)


def kernel_columns(operator: str, table: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Return the answers of a table of queries for one operator.

    Args:
        operator: gemm, attention, moe, or a name of `kernel_op`.
        table: Columns of fields by name; None and empty text mean "not given".

    Returns:
        Results by name, `warnings`, `error_code` and `error`; None for missing values.

    Example:
        >>> from perfatlas.verbs.kernel import kernel_columns
        >>> table = {"system": ["h200_sxm"] * 2, "m": [8, 8192], "n": [8192] * 2, "k": [8192] * 2}
        >>> kernel_columns("gemm", table)["bound"]
        ['memory', 'compute']
    """
    query = operator_queries.QUERIES[operator]

    def answered(inputs: Sequence[operator_queries.OperatorInputs]) -> Answered:
        priced = query.priced(inputs)
        warnings = [priced.warnings(c) for c in range(len(inputs))]
        return Answered(priced.results(), warnings, priced.problems)

    return answer_columns(table, query.schema, answered, varying=query.varying, alike=query.alike)


gemm_table, attention_table, moe_table, conv_table = (
    partial(kernel_columns, operator) for operator in ("gemm", "attention", "moe", "conv")
)
norm_table, softmax_table, embedding_table, elementwise_table = (
    partial(kernel_columns, operator) for operator in operator_queries.ROWS
)
sort_table, scan_table, reduce_table, histogram_table, filter_table, join_table = (
    partial(kernel_columns, operator)
    for operator in ("sort", "scan", "reduce", "histogram", "filter", "join")
)
group_by_table, spmv_table, stencil_table, fft_table, solve_table = (
    partial(kernel_columns, operator)
    for operator in ("group_by", "spmv", "stencil", "fft", "solve")
)


def _answer(operator: str, fields: Mapping[str, Any]) -> answer.Answer:
    return within_disputed_ends(partial(_priced_answer, operator), fields)


def _priced_answer(operator: str, fields: Mapping[str, Any]) -> answer.Answer:
    """Return the answer of one query, a table of one row, with its texts."""
    query, command = operator_queries.QUERIES[operator.removeprefix("op ")], f"kernel {operator}"
    priced = query.priced([query.schema.ask(fields)])
    if 0 in priced.problems:
        raise priced.problems[0]
    results = {name: cells[0] for name, cells in priced.results().items()}
    match = priced.match(0)
    return answer.Answer(
        command=command,
        scenario=complete_scenario(verb_fields(command), priced.inputs[0], **_decided(priced)),
        results=results,
        breakdown=[
            answer.single_row(
                priced.operator.name, priced.operator.phase, results, match, "compute"
            )
        ],
        evidence=answer.single_evidence(
            priced.system, match, _assumptions(priced, match), str(results["tier"])
        ),
        warnings=priced.warnings(0),
    )


def _is_unread(inputs: operator_queries.ElementwiseInputs, name: str) -> bool:
    """Return whether an elementwise operator does not read one of its formats."""
    needs = fields_of(type(inputs))[name].row.needs
    return needs is not None and needs.missing(vars(inputs), {}) is not None


def _decided(priced: operator_queries.PricedQueries) -> dict[str, Any]:
    """Return the fields of the first question that follow from others."""
    inputs = priced.inputs[0]
    decided: dict[str, Any] = {
        name: format_of(getattr(inputs, name), arithmetic=True).name
        for name in ("format", "kv_format")
        if hasattr(inputs, name)
        and not (
            isinstance(inputs, operator_queries.ElementwiseInputs) and _is_unread(inputs, name)
        )
    }
    if isinstance(inputs, operator_queries.AttentionInputs):
        one_query = inputs.phase == "decode"
        decided["q_len"] = inputs.q_len or (1 if one_query else inputs.kv_len)
        if inputs.kind == "gqa":
            decided["num_kv_heads"] = inputs.num_kv_heads or inputs.num_heads
            if not one_query and inputs.tier != "bound":
                decided["cache_append"] = (
                    "included" if operator_queries.appends(inputs) else "excluded"
                )
    return decided


def _clock(priced: operator_queries.PricedQueries, *, measured: bool) -> tuple[str, ...]:
    """Return the clock of the first question, and what leaves it."""
    inputs, device = priced.inputs[0], priced.system.device
    locked = None if inputs.clock_ratio == 1.0 else inputs.clock_ratio
    limit_w = priced.limit_w(0) if measured else math.nan
    causes = answer.clock_causes(device, limit_w, locked, zeros=inputs.input_distribution == ZEROS)
    if not causes:
        return ()
    clock = float(priced.devices.clock_ratio()[0])
    known = math.isfinite(limit_w)
    return (
        answer.clock_note(device, causes, f"{round(clock, 2):g}", moved=clock != 1.0, known=known),
    )


def _assumptions(
    priced: operator_queries.PricedQueries, match: CalibrationMatch | None
) -> list[str]:
    inputs, measured = priced.inputs[0], bool(priced.prices.measured_CO[0, 0])
    first = STREAMED if priced.operator.stream_kind else COLD
    graph = "CUDA graph" if priced.system.device.vendor == CUDA_VENDOR else "graph"
    said = [first.format(graph=graph), *board_energy(priced.system.device).notes]
    if match is not None:
        said += _call_notes(inputs) + operator_queries.eager_note(inputs, priced.system.device)
    said += answer.quantization_note(priced.operator, match, measured=measured)
    said += _clock(priced, measured=match is not None)
    if inputs.kernel_family is not None and match is None:
        said.append(f"kernel_family = {inputs.kernel_family} has no effect in tier bound")
    latent = isinstance(priced.operator, LatentAttention) and priced.operator.phase == Phase.DECODE
    if latent and match is None and "head_dim" in inputs.fields_set:
        said.append("head_dim has no effect: the decode roofline depends only on the latent cache")
    if inputs.tier == "measured":
        said.append(answer.MEASURED_STANDING)
        if match is not None and not measured and match.table[0]:
            said.append("no measured rows near this shape; tier physics is used")
    outside = float(priced.prices.outside_CO[0, 0])
    if outside > 0.0:
        kept = "the correction at their edge is used and " if measured else ""
        said.append(
            f"the shape is {outside:.1f} octaves outside the measured shapes: {kept}the interval is"
            " widened"
        )
    return said


def _call_notes(inputs: operator_queries.OperatorInputs) -> list[str]:
    """Return remarks on what the calibrated time of a query includes."""
    if isinstance(inputs, operator_queries.GemmInputs) and inputs.groups > 1:
        rows, columns = operator_queries.fixed_tile(inputs)
        tile = f" of {rows:g} x {columns:g}, as {inputs.grouped_kernel} has them," if rows else ""
        sizes = ", cut at random points" if inputs.group_sizes == "random" else ""
        note = (
            f"{inputs.groups} groups{sizes} are priced as one kernel whose tiles{tile} hold rows"
            " of one group each, with parameters fitted to single products, as the measured"
            " tables have no grouped ones"
        )
        return [note]
    if not isinstance(inputs, operator_queries.AttentionInputs) or inputs.phase != "prefill":
        return []
    if inputs.kind != "gqa":
        return ["the time is that of an engine's call: the append to the KV cache is inside"]
    notes = []
    if inputs.direction == "forward" and inputs.cache_append != "excluded":
        notes.append("the time is that of an engine's call: the append to the KV cache is inside")
    else:
        notes.append(
            "the attention kernel alone: the append to the KV cache is left out, as a term of the"
            " fit to engine calls; it was not measured apart"
        )
    if inputs.mask == "none":
        notes.append("every query sees every key; only causal calls were measured")
    if inputs.direction != "forward":
        notes.append(
            f"the backward pass takes {operator_queries.backward_passes().time:.2f} times as long"
            " as the forward"
            f" pass: {ATTENTION_BACKWARD:g} times its arithmetic, at the median rate of published"
            " pairs of FlashAttention-2 on an H100, whose range widens the interval; no table has"
            " it"
        )
    return notes
