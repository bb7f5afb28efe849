"""Predictions compared with a user's serving benchmarks, row by row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.answer import CommandAnswer
from perfatlas.commands.output import envelope, table_function
from perfatlas.measurements.benchmarks import read_results
from perfatlas.networks import model_names, resolve_model
from perfatlas.quantities import InvalidSpecError, PerfatlasError, did_you_mean, repr_for_error
from perfatlas.sampling import error_statistics, share_inside
from perfatlas.scenario.deployments import estimate_of
from perfatlas.scenario.fields import FIELD_NAMES
from perfatlas.vocabulary.metrics import output_tokens_per_s_per_gpu

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfatlas.measurements.benchmarks import BenchmarkRun, ReadRun

Row = dict[str, Any]
PLAN: Final = ("gpus", "tp", "pp", "cp", "attention_dp", "ep", "moe_tp", "dp")
FORMATS: Final = ("format", "gemm_format", "moe_format", "kv_format", "attention_format")
LIMITS: Final = (
    "max_num_seqs",
    "max_num_batched_tokens",
    "block_size",
    "gpu_memory_utilization",
    "kv_blocks",
)
SUBJECT: Final = (
    *("model", "system", "engine", "tier", "silicon_version", "clock_ratio", "power_cap_w"),
)
ASKED: Final = (*SUBJECT, *PLAN, "expert_distribution", *FORMATS, "prefix", *LIMITS)
LOAD: Final = ("concurrency", "isl", "osl")  # of the file
# format names of engines -> the format; "" for unknown
STATED_FORMATS: Final[Mapping[str, str]] = {
    "auto": "",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "fp8_block_scales": "fp8_block",
    "nvfp4": "nvfp4",
    "bfloat16": "bf16",
    "bf16": "bf16",
}
RATE: Final = "output_tokens_per_s_per_gpu"
COMPARED: Final = ("tpot", RATE, "ttft")
TTFT_NOTE: Final = (
    "TTFT is shown without a goal: the formula has no queueing, and a benchmark starts with a burst"
)


def validate_serving(results: Sequence[str | Path], **scenario: Any) -> CommandAnswer:  # noqa: ANN401 - fields of the vocabulary
    """Return the errors of the estimate on a user's serving benchmarks.

    Every run is predicted by `estimate_table` (mode aggregated, method formula) with the load in
    the file; nothing is fitted. Errors are predicted/measured - 1; mape is their mean absolute
    value, bias the mean of ln(predicted / measured).

    Args:
        results: Files of vLLM `bench serve`, SGLang `bench_serving`, `trtllm-bench` or AIPerf.
        scenario: Fields missing in the files, by vocabulary name: system, and model, engine, plan,
            formats, limits and prefix where needed. They override the files; a plan replaces a
            file's plan as a whole.

    Returns:
        An answer with totals; `runs`: every compared run; `below_bound`: runs measured faster than
        the roofline, whose stated load cannot be right; `refused_runs`: runs that could not be
        compared and why; `notes`: notes on reading and comparability, each with its runs;
        `question`: scenario of the run with the largest error, whose evidence the answer has.

    Raises:
        InvalidSpecError: A name is unknown or belongs to the file, the system is missing, or a file
            cannot be read.

    Limits:
        a steady state of equal requests: bursts, memory queueing and prefix caching beyond `prefix`
        are not in the estimate, nor speculative decoding unless enabled. Output tokens per second
        in the file include the start and end of the run.

    Example:
        >>> import json, tempfile
        >>> from pathlib import Path
        >>> from perfatlas import validate_serving
        >>> run = {"backend": "vllm", "model_id": "meta-llama/Llama-3.1-8B", "num_prompts": 80,
        ...        "max_concurrency": 8, "completed": 80, "total_input_tokens": 81920,
        ...        "total_output_tokens": 10240, "mean_tpot_ms": 6.0}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder) / "result.json"
        ...     _ = file.write_text(json.dumps(run))
        ...     found = validate_serving([file], system="h200_sxm")
        >>> found.results["rows"], found.columns["isl"], found.columns["concurrency"]
        (1, [1024], [8])
    """
    _check_names(scenario)
    given = {name: value for name, value in scenario.items() if value is not None}
    if not given.get("system"):
        raise InvalidSpecError("system is required: benchmark files do not state the GPUs")
    read = _read(results)
    refused = [_refusal(entry.name, InvalidSpecError(entry.error)) for entry in read if entry.error]
    asked: list[tuple[ReadRun, Row]] = []
    first_of: dict[str, ReadRun] = {}
    for entry in read:
        try:
            if entry.run is not None:
                _once(entry, first_of)
                asked.append((entry, _question(entry.run, given)))
        except PerfatlasError as problem:
            refused.append(_refusal(entry.name, problem))
    compared, unanswered = _compare(asked)
    rows = [row for row, _ in compared]
    question, evidence = _why(compared)
    notes = _notes(rows)
    found = {
        "rows": len(read),
        "refused": len(refused) + len(unanswered),
        **_totals(rows),
        "ttft_note": TTFT_NOTE,
        "runs": rows,
        "below_bound": [row for row in rows if row["below_bound"]],
        "refused_runs": [*refused, *unanswered],
        "notes": notes,
        "question": question,
    }
    doubts = [
        f"{run_names(note['runs'])}: {note['note']}" for note in notes if note["kind"] == "doubt"
    ]
    asked_of = {**given, "results": [str(file) for file in results]}
    answer = envelope("validate serving", results=found, scenario=asked_of, warnings=doubts)
    return CommandAnswer(answer | ({"evidence": evidence} if evidence else {}))


def run_names(names: Sequence[str]) -> str:
    """Return the names of runs, or their number."""
    return ", ".join(names) if len(names) <= 2 else f"{len(names)} runs"


def _check_names(scenario: Mapping[str, Any]) -> None:
    for name in scenario:
        if name in ASKED:
            continue
        if name in LOAD or name in FIELD_NAMES:
            raise InvalidSpecError(
                f"{name} cannot be set: the load is that of the file, and runs are predicted as"
                " aggregated serving by formula"
            )
        raise InvalidSpecError(f"unknown field {name!r}{did_you_mean(name, ASKED)}")


def _read(results: Sequence[str | Path]) -> list[ReadRun]:
    """Return the runs of all files, each with the shortest unique file name."""
    paths = [Path(path) for path in results]
    short = Counter(path.name for path in dict.fromkeys(paths))
    return [
        entry
        for path in paths
        for entry in read_results(path, path.name if short[path.name] == 1 else str(path))
    ]


def _once(entry: ReadRun, first_of: dict[str, ReadRun]) -> None:
    """Raise for a duplicate run, so that it does not count twice."""
    first = first_of.setdefault(repr(entry.run), entry)
    if first is not entry:
        raise InvalidSpecError(f"duplicate of {first.name}: it counts once")


def _refusal(name: str, problem: PerfatlasError) -> Row:
    return {"run": name, "error_code": problem.error_code, "error": str(problem)}


def _question(run: BenchmarkRun, given: Mapping[str, Any]) -> Row:
    """Return the scenario of a run: set fields first, then those of its file."""
    concurrency, _ = run.concurrency()
    stated: Row = {
        "model": given.get("model") or _catalog_model(run.model),
        "engine": given.get("engine") or _engine(run),
        **run.limits,
        "mode": "aggregated",
        "method": "formula",
        "concurrency": concurrency,
        "isl": max(round(run.isl), 1),
        "osl": max(round(run.osl), 1),
    }
    if stated["osl"] < 2:
        raise InvalidSpecError(f"{run.osl:g} output tokens per request: TPOT needs at least two")
    if not any(name in given for name in PLAN):
        stated |= run.plan
    if not any(name in given for name in FORMATS):
        stated |= _stated_formats(run)
    return {**stated, **given}


def _catalog_model(name: str) -> str:
    """Return the catalog id of a model named in a file: an id, or a path that ends in one."""
    if not name:
        raise InvalidSpecError("the file does not name the model: set --model")
    known = set(model_names())
    for text in dict.fromkeys((name.strip(), name.strip().rstrip("/").rpartition("/")[2])):
        try:
            found = resolve_model(text).name
        except PerfatlasError:
            continue  # the error below names the model of the file
        if found in known:
            return found
    raise InvalidSpecError(
        f"the model of the file, {repr_for_error(name)}, is not in the"
        f" catalog{did_you_mean(name, known)};"
        " set --model to a catalog id or the path of a config.json"
    )


def _engine(run: BenchmarkRun) -> str:
    if not run.engine:
        raise InvalidSpecError(
            "the file does not state the engine: set --engine vllm, sglang or trtllm"
        )
    return run.engine


def _stated_formats(run: BenchmarkRun) -> dict[str, str]:
    """Return the formats stated in a file; raise for unknown names."""
    found = {}
    for name, text in run.formats.items():
        known = STATED_FORMATS.get(text.casefold())
        if known is None:
            raise InvalidSpecError(
                f"the file states the quantization {repr_for_error(text)}, which is not a known"
                " format: set"
                " --format (`perfatlas catalog formats` lists them)"
            )
        found[name] = known
    return {name: text for name, text in found.items() if text}


def _compare(asked: Sequence[tuple[ReadRun, Row]]) -> tuple[list[tuple[Row, Row]], list[Row]]:
    """Return (row, scenario) of every predicted run, and the errors of the others."""
    if not asked:
        return [], []
    names = dict.fromkeys(name for _, question in asked for name in question)
    questions = [{name: question.get(name) for name in names} for _, question in asked]
    answers = _answers(questions)
    bounds = _answers([question | {"tier": "bound"} for question in questions])
    compared, refused = [], []
    for (entry, question), answer, bound in zip(asked, answers, bounds, strict=True):
        if entry.run is not None and not answer["error_code"]:
            compared.append((_row(entry.name, entry.run, question, answer, bound), question))
        else:
            code, error = answer["error_code"], answer["error"]
            refused.append({"run": entry.name, "error_code": code, "error": error})
    return compared, refused


def _answers(questions: Sequence[Row]) -> list[Row]:
    """Return the estimate of every scenario; all have the same fields."""
    columns = {name: [question[name] for question in questions] for name in questions[0]}
    found = table_function("estimate")(columns, range(len(questions)))
    return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]


def _row(name: str, run: BenchmarkRun, question: Row, answer: Row, bound: Row) -> Row:
    """Return measured and predicted figures; unmeasured ones are None."""
    tpot_s, tpot_statistic = run.measured_tpot()
    ttft_s, ttft_statistic = run.measured_ttft()
    tokens_per_s = run.output_tokens_per_s
    bound_s = None if bound["error_code"] else bound["tpot_s"]
    row: Row = {
        "run": name,
        "tool": run.tool,
        "model": question["model"],
        "engine": question["engine"],
        "gpus": answer["gpus"],
        "concurrency": question["concurrency"],
        "concurrency_source": run.concurrency()[1],
        "in_flight_measured": run.in_flight,
        "isl": question["isl"],
        "osl": question["osl"],
        "completed": run.completed,
        "failed": run.failed,
        "tpot_statistic": tpot_statistic,
        **_compared("tpot", "_s", tpot_s, answer),
        "tpot_median_measured_s": run.tpot.median_s,
        "itl_mean_measured_s": run.itl.mean_s,
        "tpot_bound_s": bound_s,
        "below_bound": _below_bound(tpot_s, ttft_s, question["osl"], bound),
        **_compared(RATE, "", output_tokens_per_s_per_gpu(tokens_per_s, answer["gpus"]), answer),
        "ttft_statistic": ttft_statistic,
        **_compared("ttft", "_s", ttft_s, answer),
        "remarks": list(run.remarks()),
        "doubts": list(run.doubts()),
    }
    return row


def _below_bound(tpot_s: float | None, ttft_s: float | None, osl: float, bound: Row) -> bool | None:
    """Return whether a run is faster than the roofline, None where unknown.

    The whole request is compared where TTFT was measured too, as waiting before the first token
    reduces prefill interference later.
    """
    if tpot_s is None or bound["error_code"]:
        return None
    if ttft_s is None:
        return bool(tpot_s < bound["tpot_s"])
    return bool(ttft_s + tpot_s * (osl - 1.0) < bound["request_latency_s"])


def _compared(name: str, unit: str, measured: float | None, answer: Row) -> Row:
    """Return a measured figure, its prediction, the error and whether it is inside the interval."""
    predicted, low, high = (answer[f"{name}{unit}{end}"] for end in ("", "_low", "_high"))
    bounded = high is not None and low is not None
    return {
        f"{name}_measured{unit}": measured,
        f"{name}{unit}": predicted,
        f"{name}{unit}_low": low,
        f"{name}{unit}_high": high,
        f"{name}_error": None if measured is None else predicted / measured - 1.0,
        f"{name}_inside_90": low <= measured <= high if measured is not None and bounded else None,
    }


def _totals(rows: Sequence[Row]) -> Row:
    """Return error statistics over the rows with a measured figure; None for none."""
    found: Row = {}
    for name in COMPARED:
        unit = "" if name == RATE else "_s"
        known = [row for row in rows if row[f"{name}_measured{unit}"] is not None]
        found[f"{name}_rows"] = len(known)
        for figure in ("mape", "median_error", "bias", "inside_90"):
            found[f"{name}_{figure}"] = None
        if not known:
            continue
        predicted, measured, low, high = (
            [row[f"{name}{end}"] for row in known]
            for end in (unit, f"_measured{unit}", f"{unit}_low", f"{unit}_high")
        )
        errors = error_statistics(predicted, measured)
        found[f"{name}_mape"] = errors.mape
        found[f"{name}_median_error"] = errors.median_error
        found[f"{name}_bias"] = errors.bias
        found[f"{name}_inside_90"] = share_inside(low, measured, high)
    return found


def _notes(rows: Sequence[Row]) -> list[Row]:
    """Return every note once, with its runs, doubts first."""
    about: dict[tuple[str, str], list[str]] = {}
    for kind in ("doubts", "remarks"):
        for row in rows:
            for sentence in row[kind]:
                about.setdefault((kind, sentence), []).append(row["run"])
    return [
        {"note": sentence, "kind": kind.removesuffix("s"), "rows": len(names), "runs": names}
        for (kind, sentence), names in about.items()
    ]


def _why(compared: Sequence[tuple[Row, Row]]) -> tuple[Row, Row]:
    """Return the scenario with the largest error and the evidence of its prediction."""
    if not compared:
        return {}, {}
    worst = max(
        compared, key=lambda pair: abs(pair[0]["tpot_error"] or pair[0][f"{RATE}_error"] or 0)
    )
    question = {name: value for name, value in worst[1].items() if value is not None}
    return question, estimate_of(question).to_dict()["evidence"]
