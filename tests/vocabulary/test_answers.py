"""Real answers of every verb match the table of metrics."""

from __future__ import annotations

import contextlib
import io
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.declarations import questions, verb_fields
from perfatlas.vocabulary.metrics import LOW_ENDING, METRICS, Metric, find_metric, stem_of
from tests.vocabulary.questions import ASKED, INTERRUPTED, MODEL, answered, answered_with_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    Results = dict[str, Any]

# of a trace: what was read from a file, as its reader tells it
OPAQUE: Final = ("trace", "compared.changes")
LOADED: Final = "--table"
REPEATED: Final = {"timestamp": 0, "input_length": 600, "output_length": 8, "hash_ids": [1, 2]}
FORMS: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys(("number", "count"), (int, float)),
    **dict.fromkeys(("rows", "numbers", "texts"), (list,)),
    "flag": (bool,),
    "text": (str,),
    "object": (dict,),
}


PLAN: Final = """
start = "2026-07"
months = 4
gco2_per_kwh = 400
[[workload]]
name = "chat"
tokens_per_day = 1e10
usd_per_million_tokens = 10
scenario = { model = "meta-llama/Llama-3.1-8B", batch = 64, isl = 1024, osl = 256 }
[[workload]]
name = "code"
tokens_per_day = 1e9
scenario = { model = "meta-llama/Llama-3.1-8B", batch = 8, isl = 1024, osl = 256 }
[[machine]]
system = "h200_sxm"
max_gpus_per_month = 64
[[machine]]
system = "l40s"
usd_per_gpu = 8000
scenario = { tp = 3 }
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Results]]:
    """Return (command, results) of one answer of every kind."""
    folder = tmp_path_factory.mktemp("asked")
    of_python = [answered(name) for name in ASKED]
    of_python += [*answered_with_files().values(), INTERRUPTED.answer()]
    found = [answer.to_dict() for answer in of_python]
    found += _of_the_command_line(folder)
    return [(answer["command"], answer["results"]) for answer in found]


def _of_the_command_line(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield answers that only commands give: frontiers, a table, a shortfall."""
    rows, told = folder / "rows.csv", folder / "told.csv"
    rows.write_text("batch\n1\n2\n", "utf-8")
    words = ["estimate", "--system", "h200_sxm", "--json", "--model"]
    table = ["--table", str(rows), "--output", str(told)]
    yield _printed([*words, MODEL["model"], "--frontier", "--osl", "64"])
    for over in ("clock_ratio", "power_cap_w"):
        swept = ["--frontier", "--frontier-over", over]
        yield _printed([*words, MODEL["model"], *swept, "--osl", "64"])
    yield _printed([*words, MODEL["model"], "--explain", "--tier", "bound"])
    searched = ["--gpus", "2", "--mode", "static", "--usd-per-gpu-hour", "2"]
    searched += ["--emit", "vllm", "--speculative-depth", "1", "--speculative-acceptance", "0.7"]
    searched_model = ["search", *words[1:], "Qwen/Qwen3-30B-A3B"]
    yield _printed([*searched_model, *searched])
    pooled = ["--gpus", "2", "--mode", "disaggregated", "--formats", "bf16,fp8"]
    yield _printed([*searched_model, *pooled])
    within = ["--slo-ttft-s", "0.1", "--slo-itl-s", "0.02", "--slo-percentile", "95"]
    small = ["--gpus", "1", "--isl", "256", "--osl", "16", "--verbose", *within]
    yield _printed(["search", *words[1:], MODEL["model"], *small])
    spared = ["--max-gpus", "4", "--objective", "gpus", "--request-rate", "1", "--tp", "1"]
    spared += ["--availability", "0.99", "--node-mtbf-s", "99", "--repair-s", "1"]
    yield _printed(["search", *words[1:], MODEL["model"], *spared, "--num-simulated", "0"])
    trace = rows.with_name("trace.jsonl")
    trace.write_text(2 * (json.dumps(REPEATED) + "\n"))
    repeated = ["--gpus", "1", "--lengths-from", str(trace), "--request-format", "mooncake"]
    yield _printed(["search", *words[1:], MODEL["model"], *repeated, "--num-simulated", "0"])
    yield from _explained([*searched_model, "--gpus", "2", "--mode", "static", "--explain"])
    yield {**_printed([*words, MODEL["model"], *table]), "command": LOADED}
    job = ["--gpus", "16000", "--checkpoint-write-s", "30", "--restart-s", "600"]
    job += ["--duration-s", "2d", "--half-width", "0.5", "--usd-per-gpu-hour", "2"]
    yield _printed(["goodput", "--frontier", "--fleet", "llama3", "--json", *job])
    yield _printed([*words, "meta-llama/Llama-3.1-405B"], code=4)
    plan = folder / "plan.toml"
    plan.write_text(PLAN, "utf-8")
    yield _printed(["fleet", "plan", str(plan), "--json"])


def _explained(words: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a search, and what it explains as the answer of an estimate that it is."""
    answer = _printed(words)
    explained = answer["results"].pop("explained")
    yield answer
    yield {"command": "search --explain", "results": {"explained": {}}}
    yield {"command": "estimate --explain", "results": explained}


def _printed(words: list[str], code: int = 0) -> dict[str, Any]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        assert main(words) == code
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def _walk(value: Results, holder: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield (holder, key, value) of all keys that must be in the table of metrics."""
    for key, inner in value.items():
        metric = find_metric(key, holder)
        yield holder, key, inner
        if metric is None or metric.name in OPAQUE or metric.parts or _is_statistics(metric, inner):
            continue
        if isinstance(inner, dict):
            yield from _walk(inner, key)
        elif metric.holds == "rows" or (metric.rows_of and isinstance(inner, list)):
            for row in inner:
                yield from _walk(row, key)


def _is_statistics(metric: Metric, value: object) -> bool:
    return bool(metric.statistics_of) and isinstance(value, dict)


def test_every_key_of_every_answer_is_declared(answers: list[tuple[str, Results]]) -> None:
    fields = {name for command in questions() for name in verb_fields(command)}
    unknown = {
        f"{command}: {holder}.{key}"
        for command, results in answers
        for holder, key, _ in _walk(results)
        if find_metric(key, holder) is None and not (holder and key in fields)
    }
    assert unknown == set()


def test_every_answer_has_the_declared_form(answers: list[tuple[str, Results]]) -> None:
    wrong = {
        f"{command}: {holder}.{key} is {value!r}"[:120]
        for command, results in answers
        for holder, key, value in _walk(results)
        if (metric := find_metric(key, holder)) and not _has_form(metric, value, command, key)
    }
    assert wrong == set()


def _has_form(metric: Metric, value: object, command: str, key: str) -> bool:
    # the half-width of a mean is a number, not statistics
    of_mean = key.endswith("_half_width") and not key.endswith("_seed_half_width")
    if command in metric.statistics_of and not of_mean:
        return isinstance(value, dict) and set(value) == set(metric.statistics)
    if metric.parts and isinstance(value, dict):
        return set(value) <= set(metric.parts)
    if command in metric.rows_of:
        return isinstance(value, list)
    kinds = FORMS["number" if stem_of(key) != key else metric.holds]
    return value is None or (
        isinstance(value, kinds) and isinstance(value, bool) == (bool in kinds)
    )


def test_every_verb_reports_its_declared_metrics(answers: list[tuple[str, Results]]) -> None:
    declared = {(verb, metric.name) for metric in METRICS.values() for verb in metric.verbs}
    told = {
        (command, metric.name)
        for command, results in answers
        for holder, key, _ in _walk(results)
        if (metric := find_metric(key, holder))
        if not holder or "." in metric.name or command in metric.verbs
    }
    assert sorted(told - declared) == []
    assert sorted({name for _, name in declared} - {name for _, name in told}) == []


def test_intervals_are_declared_and_ordered(answers: list[tuple[str, Results]]) -> None:
    with_ends = set()
    for _, results in answers:
        for holder, key, _ in _walk(results):
            metric = find_metric(key, holder)
            if metric is not None and key.endswith((LOW_ENDING, "_high", "_half_width")):
                assert metric.has_interval or key.endswith("_seed_half_width"), key
                with_ends.add(metric.name)
    declared = {metric.name for metric in METRICS.values() if metric.has_interval}
    assert declared <= with_ends
