"""`kernel tune`: designs of one kernel, or of those of a model, and what the default costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import Answer, single_evidence
from perfatlas.declarations import verb_fields
from perfatlas.hardware import resolve_system
from perfatlas.lab import tune
from perfatlas.lab.harness import layer_cases
from perfatlas.networks import resolve_model
from perfatlas.quantities import (
    PerfatlasError,
    UnsupportedError,
    UsageError,
    counted,
    resolve_name,
)
from perfatlas.scenario import operator_queries as queries
from perfatlas.scenario.fields import complete_scenario
from perfatlas.scenario.resolution import format_of
from perfatlas.verbs.kernel_tune.metrics import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfatlas.hardware import System

INPUTS: Final[Mapping[str, type[Any]]] = {
    "gemm": queries.GemmTuneInputs,
    "grouped_gemm": queries.ExpertTuneInputs,
    "attention": queries.AttentionTuneInputs,
    "norm": queries.NormTuneInputs,
    "all_reduce": queries.ReduceTuneInputs,
}
MOST_SHAPES: Final = 256
FIRST: Final = 1
MANY: Final = 0.3  # share of designs within 5% above which a kernel is flat
NEAR: Final = 1.05
PRODUCTS: Final = ("gemm", "grouped_gemm")
# Kernels for the operators of a model
OF_MODELS: Final = {
    "gemm": "gemm",
    "moe": "grouped_gemm",
    "prefill_attention": "attention",
    "decode_attention": "attention",
    "norm": "norm",
}
FITTED: Final = (
    "constants fitted to configurations that vLLM and SGLang ship for A100, H100 and MI300X, and to"
    " measured layers of experts"
)
LOOP: Final = (
    "waves of blocks, occupancy, MMA instructions by tile and format, conversions, shared memory,"
    " L2, memory and the latency of loads over stages; clocks are constant"
)
NOT_MEASURED: Final = (
    "not measured: ranks and regret are predictions; budget_s measures on this GPU"
)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """The answer, with what was tuned."""

    answer: Answer
    tunings: list[tune.Tuning]


def kernel_tune(kernel: str = "", /, **fields: Any) -> Answer:  # noqa: ANN401 - checked against the table of fields
    """Return the designs of a kernel, or of all kernels of a model, that are worth measuring.

    Args:
        kernel: gemm, grouped_gemm, attention, norm or all_reduce; "" for the kernels of `model`.
        **fields: Fields of `perfatlas kernel tune KERNEL`; sizes may be lists.

    Raises:
        InvalidSpecError: A field is missing, unknown, out of its bounds, contradicts another, or
            has no effect.
        UnsupportedError: There is no kernel of the device or format, or it cannot be measured here.
        InfeasibleError: No design can be launched.

    Example:
        >>> from perfatlas.verbs.kernel_tune import kernel_tune
        >>> answer = kernel_tune("norm", system="h100_sxm", tokens=4096, width=8192)
        >>> answer.results["limiting_unit"]
        'memory'
    """
    name = str(kernel)
    if name:
        lists = "`perfatlas kernel tune --help` lists all"
        resolve_name(name, tuple(INPUTS), what="kernel", lists=lists, shorten=False)
    return tuned(f"kernel tune {name}".rstrip(), fields).answer


def tuned(command: str, fields: Mapping[str, Any]) -> Tuned:
    """Return the answer of a command, with its tunings."""
    kernel = command.removeprefix("kernel tune").strip()
    if not kernel:
        return _tuned_model(command, fields)
    lists = {name: tuple(v) for name, v in fields.items() if isinstance(v, list | tuple)}
    if math.prod(map(len, lists.values())) > MOST_SHAPES:
        raise UsageError(f"the lists have more than {MOST_SHAPES} combinations; use shorter ones")
    asked = [
        INPUTS[kernel].ask({**fields, **dict(zip(lists, values, strict=True))})
        for values in product(*lists.values())
    ]
    found = [_tuning(kernel, inputs) for inputs in asked]
    shapes = [
        _shape_row(_text(inputs, lists), tuning, _library_s(inputs.system, tuning.question))
        for inputs, tuning in zip(asked, found, strict=True)
    ]
    several = len(found) > FIRST
    results: dict[str, Any] = {"shapes": shapes} if several else dict(shapes[0])
    results.pop("shape", None)
    results["designs"] = _designs(
        zip([row["shape"] for row in shapes], found, strict=True), several
    )
    results["rejected_designs"] = _rejected(found)
    scenario = complete_scenario(verb_fields(command), asked[0]) | lists
    return Tuned(answer=_answer(command, scenario, results, found), tunings=found)


def _tuning(kernel: str, inputs: Any) -> tune.Tuning:  # noqa: ANN401 - inputs of a kernel
    device = resolve_system(inputs.system).device
    number_format = format_of(getattr(inputs, "format", None) or "bf16")
    question = tune.Question(
        kernel=kernel, device=device, number_format=number_format, shape=_shape(kernel, inputs)
    )
    return tune.tune(question, budget_s=getattr(inputs, "budget_s", None))


def _shape(kernel: str, inputs: Any) -> dict[str, Any]:  # noqa: ANN401 - inputs of a kernel
    """Return sizes by the names that kernels have for them."""
    if kernel == "gemm":
        return {name: getattr(inputs, name) for name in "mnk"}
    if kernel == "grouped_gemm":
        names = ("tokens", "hidden", "intermediate", "experts", "top_k", "ep", "moe_tp")
        return {name: getattr(inputs, name) for name in names}
    if kernel == "attention":
        decode = inputs.phase == "decode"
        return {
            "batch": inputs.batch,
            "q_len": inputs.q_len or (1 if decode else inputs.kv_len),
            "kv_len": inputs.kv_len,
            "num_heads": inputs.num_heads,
            "num_kv_heads": inputs.num_kv_heads or inputs.num_heads,
            "head_dim": inputs.head_dim,
            "causal": inputs.mask == "causal",
        }
    shape = {name: getattr(inputs, name) for name in ("tokens", "width")}
    return shape | ({"ranks": inputs.gpus} if kernel == "all_reduce" else {})


def _library_s(system: str, question: tune.Question) -> float | None:
    """Return the time of the libraries of engines [s]; None where none was measured."""
    shape, kernel = dict(question.shape), question.kernel
    asked: dict[str, Any] = {"system": system, "format": question.number_format.name}
    if kernel == "all_reduce":
        moved = {"op": "all_reduce", "bytes": 2.0 * shape["tokens"] * shape["width"]}
        moved |= {"system": system, "gpus": shape.pop("ranks")}
        priced = queries.price_collective_queries([queries.CollectiveInputs.ask(moved)])
        normed_s = _priced_s("norm", {"system": system, **shape}) or 0.0
        return float(priced.found.prices.time_s_CO[0, 0]) + normed_s
    if kernel == "norm":
        return _priced_s("norm", {"system": system, **shape})
    if kernel == "attention":
        decode, causal = shape["q_len"] == 1, shape.pop("causal")
        asked |= {"phase": "decode"} if decode else {"mask": "causal" if causal else "none"}
        asked |= {} if decode else {"phase": "prefill", "kv_format": asked["format"]}
    return _priced_s({"grouped_gemm": "moe"}.get(kernel, kernel), asked | shape)


def _priced_s(operator: str, asked: Mapping[str, Any]) -> float | None:
    query = queries.QUERIES[operator]
    priced = query.priced([query.schema.ask(dict(asked))])
    return None if 0 in priced.problems else float(priced.results()["time_s"][0])


def _tuned_model(command: str, fields: Mapping[str, Any]) -> Tuned:
    """Return the kernels of a prefill and a decode step of a model.

    Raises:
        UnsupportedError: No kernel of the model can be tuned, or it is no language model.
    """
    inputs = queries.ModelTuneInputs.ask(dict(fields))
    device = resolve_system(inputs.system).device
    number_format = format_of(inputs.format)
    tune.chip_of(device, number_format)  # refused before any kernel
    network = resolve_model(inputs.model).network
    if not network.decodes:
        raise UnsupportedError(
            f"kernel tune --model tunes language models, and {inputs.model} has no decode step; use"
            " kernel tune gemm with the sizes of its products"
        )
    cases = layer_cases(
        inputs.model,
        number_format=number_format.name,
        batch=inputs.batch,
        isl=inputs.isl,
        tp=inputs.tp,
    )
    found, shapes, left = [], [], []
    known = [case for case in cases if case.operator in OF_MODELS]
    for case in known:
        kernel = OF_MODELS[case.operator]
        shape = dict(case.shape) | ({"ep": 1, "moe_tp": 1} if kernel == "grouped_gemm" else {})
        if kernel == "attention":
            shape = {"q_len": 1, **shape, "causal": bool(getattr(case.priced, "causal", True))}
        question = tune.Question(
            kernel=kernel, device=device, number_format=format_of(case.format), shape=shape
        )
        budget_s = inputs.budget_s and inputs.budget_s / len(known)
        try:
            tuning = tune.tune(question, budget_s=budget_s)
        except PerfatlasError as problem:
            left.append(f"{case.name}: {problem}")
            continue
        found.append(tuning)
        library_s = _library_s(inputs.system, question)
        shapes.append({**_shape_row(case.name, tuning, library_s), "count": case.count})
    left += [
        f"{case.name} ({case.operator.replace('_', ' ')}): no kernel"
        for case in cases
        if case.operator not in OF_MODELS
    ]
    if not any(one.question.kernel in PRODUCTS for one in found):
        raise UnsupportedError(
            f"kernel tune has no kernels for the products of {inputs.model} in {inputs.format} on"
            f" {inputs.system}: {left[0]}"
        )
    results: dict[str, Any] = {
        "time_s": sum(row["count"] * row["time_s"] for row in shapes),
        "default_time_s": sum(
            row["count"] * (row["default_time_s"] or row["time_s"]) for row in shapes
        ),
    }
    results["gain"] = results["default_time_s"] / results["time_s"]
    names = [row["shape"] for row in shapes]
    designs = _designs(zip(names, found, strict=True), several=True)
    results |= {"shapes": shapes, "designs": designs, "rejected_designs": _rejected(found)}
    scenario = complete_scenario(verb_fields(command), inputs)
    return Tuned(answer=_answer(command, scenario, results, found, left), tunings=found)


def _text(inputs: Any, lists: Mapping[str, Any]) -> str:  # noqa: ANN401 - inputs of a kernel
    """Return the sizes in which shapes differ."""
    return ", ".join(f"{name} {getattr(inputs, name):,}" for name in lists) or "one shape"


def _shape_row(shape: str, tuning: tune.Tuning, library_s: float | None) -> dict[str, Any]:
    """Return what is known of one shape."""
    selection, rows = tuning.selection, tuning.rows()
    best = rows[0]
    default = next((row for row in rows if row["default"]), None)
    measured = best["measured_s"] is not None
    gain = (selection.gain, selection.gain_low, selection.gain_high)
    if measured and default is not None and default["measured_s"] is not None:
        gain = (default["measured_s"] / best["measured_s"],) * 3
    return {
        "shape": shape,
        "kernel": tuning.question.kernel,
        "default_from": tuning.default_name,
        "default_design": _design_text(default) if default else None,
        "default_time_s": default["time_s"] if default else None,
        "library_time_s": library_s,
        "design": _design_text(best),
        "time_s": best["time_s"],
        "time_s_low": best["time_s_low"],
        "time_s_high": best["time_s_high"],
        "measured_s": best["measured_s"],
        "gain": gain[0] if default else None,
        "gain_low": gain[1] if default else None,
        "gain_high": gain[2] if default else None,
        "gain_if_measured": None if measured or not default else selection.measured_gain,
        "limiting_unit": best["limiting_unit"],
        "next_unit": best["next_unit"],
        "speedup_if_twice_as_fast": best["speedup_if_twice_as_fast"],
        "legal_designs": selection.legal,
        "near_share": selection.near,
        "expected_regret": None if measured else selection.regret.get(1),
        "regret_of_8": None if measured else selection.regret.get(8),
        "regret_of_16": None if measured else selection.regret.get(16),
        "best_kept": selection.best_kept,
        "tuning_advice": _advice(tuning, default, measured=measured),
    }


def _advice(tuning: tune.Tuning, default: Mapping[str, Any] | None, *, measured: bool) -> str:
    if measured:
        return "measured: take the first design"
    if tuning.question.kernel == "all_reduce":
        return "price only: kernel tune measures on one GPU"
    if tuning.selection.legal == FIRST:
        return "nothing to tune: one design can be launched"
    flat = tuning.selection.near >= MANY and tuning.selection.gain <= NEAR
    if default is not None and tuning.selection.measured_gain is None and flat:
        share = f"{tuning.selection.near:.0%}"
        return f"do not tune: {share} of the designs, with the default, are within 5% of the first"
    if default is None or tuning.selection.measured_gain is None:
        return "measure the first 8 designs, with the libraries"
    if tuning.selection.is_flat:
        return "do not tune: measuring 8 designs is expected to gain less than 3%"
    if (tuning.selection.gain_low or 0.0) > 1.0:
        return "take the first design, and measure the first 8"
    return "measure the first 8 designs and the default"


def _designs(
    shapes: Iterable[tuple[str, tune.Tuning]],
    several: bool,  # noqa: FBT001 - a column more
) -> list[dict[str, Any]]:
    """Return the kept designs of all shapes."""
    return [
        ({"shape": shape} if several else {})
        | {NAMES.get(name, name): value for name, value in row.items()}
        for shape, tuning in shapes
        for row in tuning.rows()
    ]


def _design_text(row: Mapping[str, Any]) -> str:
    """Return a design in words, such as 16 x 64 x 128, 4 warps, 3 stages."""
    sizes = " x ".join(str(row[name]) for name in ("bm", "bn", "bk") if name in row)
    if "bm" in row and "bn" not in row:
        sizes = counted(int(row["bm"]), "row")
    names = {"group": "group", "splits": "splits", "programs": "programs"}
    words = [f"{row[key]} {name}" for key, name in names.items() if row.get(key, 1) != 1]
    words += [f"{row[name]} {name}" for name in ("warps", "stages") if name in row]
    words += ["roles of warps"] if row.get("roles") else []
    return ", ".join([*([sizes] if sizes else []), *words])


def _rejected(found: Iterable[tune.Tuning]) -> list[dict[str, Any]]:
    counts: dict[str, int] = {}
    for tuning in found:
        for reason, count in tuning.priced.rejected.items():
            counts[reason] = counts.get(reason, 0) + count
    return [{"reason": reason, "designs": count} for reason, count in counts.items()]


def _answer(
    command: str,
    scenario: Mapping[str, Any],
    results: dict[str, Any],
    found: list[tune.Tuning],
    left: Iterable[str] = (),
) -> Answer:
    system: System = resolve_system(str(scenario["system"]))
    versions = next((one.versions for one in found if one.versions), {})
    compiled = (
        f"compiled by Triton {versions['triton']}: registers, spills and shared memory are its own"
        if versions
        else "not compiled, as Triton is not installed: registers and shared memory are estimates"
    )
    gpus = next((one.device for one in found if one.device), "")
    assumptions = [FITTED, LOOP, compiled, f"measured on {gpus}" if gpus else NOT_MEASURED]
    warnings = [f"not tuned: {text}" for text in left]
    wide = {one.question.kernel for one in found} - {"grouped_gemm"}
    if wide and not gpus:
        names = ", ".join(sorted(wide))
        warnings.append(
            f"not validated: no times of {names} by tile are published; the interval is assumed,"
            " and their order was not scored"
        )
    return Answer(
        command=command,
        scenario=dict(scenario),
        results=results,
        breakdown=[],
        evidence=single_evidence(system, None, assumptions, "pipeline"),
        warnings=tuple(warnings),
    )
