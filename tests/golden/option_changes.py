"""Fields of golden questions changed alone, and what each change does to the answer."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import shlex
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import perfatlas
from perfatlas.commands.flags import positional_fields
from perfatlas.declarations import example_of, verb_fields
from perfatlas.quantities import PerfatlasError
from perfatlas.scenario.deployments import Priced, refuse_unused_options
from perfatlas.scenario.resolution import split_fields
from perfatlas.studies.traffic import sized_run
from perfatlas.verbs.simulate.answer import simulation_of
from tests.golden.option_values import others_of
from tests.golden.question import Question, read_questions

Fields = dict[str, Any]
# what changes nothing in one question: a limit that is not reached, or the default in other words
_HIDDEN: Final = {"sampling_penalties": "host time that the steps of the GPU hide"}
_LIMITS: Final = {
    "max_num_seqs": "a limit above the sequences there are",
    "chunked_prefill": "prompts that fit one step",
    "stream_interval": "an answer shorter than the interval",
    "moe_format": "the format of the checkpoint, whatever it is called",
    "attention_format": "attention that waits for memory at the bound",
    "ep": "experts of one token at the bound",
    "moe_tp": "experts of one token at the bound",
    "power_cap_w": "a limit above what the GPUs draw",
    **_HIDDEN,
}
_OPERATORS: Final = {"clock_ratio": "an operator that waits for memory at the bound"}
UNFELT: Final[dict[str, dict[str, str]]] = {
    "kernel gemm": _OPERATORS,
    "kernel attention": {
        **_OPERATORS,
        "kv_len": "a context beyond the window",
        "phase": "the same number of query tokens, at the bound",
    },
    "kernel moe": {"experts": "experts that no token is sent to, at the bound"},
    "collective": {
        "nodes": "as many nodes as the ranks need",
        "gpus": "further ranks that neither send nor receive",
    },
    "fleet schedule": {
        "depth": "fewer waiting jobs than the depth",
        "half_life_s": "the same order of users",
        "placement": "jobs that never share a node",
        "keeps_place": "requeued jobs that start at once",
        "repair_s": "nodes that no job misses",
        "patience_s": "a replacement is found at once",
        "fewest_share": "jobs that lose fewer nodes",
        "zone": "all times are moved alike",
    },
    "goodput": {"format": "formats of the same peak"},
    "estimate": _LIMITS,
    "compare": _HIDDEN,
    "search": {
        **_HIDDEN,
        **dict.fromkeys(
            ("slo_ttft_s", "slo_tpot_s", "slo_itl_s", "slo_request_latency_s"),
            "limits that the same plans meet",
        ),
        "num_simulated": "fewer plans that can be simulated",
        "availability": "as many spare replicas",
        "block_size": "plans with room for the same sequences",
    },
    "simulate": {
        **_LIMITS,
        **dict.fromkeys(
            ("slo_ttft_s", "slo_tpot_s", "slo_itl_s", "slo_request_latency_s"),
            "objectives that the same requests meet",
        ),
        **dict.fromkeys(
            ("num_requests", "concurrency", "spread_batches", "host_cache_bytes"),
            "a trace of fewer requests, or of requests that are never together",
        ),
    },
}


class Change(NamedTuple):
    """One field of one question changed.

    Args:
        question: Name of the question.
        value: Its other value.
        outcome: "moved", "refused", "remarked" or "ignored".
    """

    question: str
    field: str
    value: Any
    outcome: str


class Asked(NamedTuple):
    """The fields of a question, and the files it reads.

    Args:
        fields: Values by name, as texts of a command line.
        files: Texts by name of the file.
    """

    fields: Fields
    files: dict[str, str]


def asked_of(verb: str) -> dict[str, Asked]:
    """Return the golden questions of a verb that ask fields alone, or its example; no tables.

    Args:
        verb: One of `VERBS`.
    """
    found: dict[str, Asked] = {}
    example = tuple(shlex.split(example_of(verb))[1:])
    for question in (*read_questions(), Question(name=f"{verb} example", commands=(example,))):
        if question.verb == verb and not question.silicon and "refusal" not in question.name:
            fields = fields_of(question)
            if fields is not None:
                found[question.name] = Asked(fields, question.files)
    recorded = {name: asked for name, asked in found.items() if not name.endswith("example")}
    return recorded or found


def fields_of(question: Question) -> Fields | None:
    """Return the fields of the command line, None if it has more commands or other options."""
    if len(question.commands) != 1:
        return None
    rows, words = verb_fields(question.verb), [*question.commands[0], "--"]
    after = question.commands[0][len(question.verb.split()) :]
    fields: Fields = dict(zip(positional_fields(question.verb), after, strict=False))
    for word, value in itertools.pairwise(words):
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--") or name == "json":
            continue
        if name not in rows and name.removeprefix("no_") not in rows:
            return None
        if name not in rows:
            fields[name.removeprefix("no_")] = False
        elif name in fields:
            return None
        else:
            fields[name] = value.startswith("--") or value
    return fields


def sample(verb: str, size: int, seed: int = 0) -> dict[str, Asked]:
    """Return some golden questions of a verb, in random order.

    Args:
        verb: One of `VERBS`.
        size: How many.
        seed: Seed of the draw.
    """
    asked = asked_of(verb)
    chosen = random.Random(seed).sample(sorted(asked), min(size, len(asked)))  # noqa: S311
    return {name: asked[name] for name in chosen}


def changes(
    verb: str,
    questions: dict[str, Asked],
    names: Iterable[str],
    again: Collection[str] = ("ignored",),
) -> Iterator[Change]:
    """Yield every change of some questions.

    Further values are tried where the first is ignored: it may be what holds by default. Of those
    tried, the change is yielded that moved a number, else one with a remark, else a refused one.

    Args:
        verb: One of `VERBS`.
        questions: Fields by the names of the questions.
        names: The fields to change.
        again: Outcomes after which further values are tried.
    """
    one_by_one = verb != "estimate" or any(asked.files for asked in questions.values())
    return (_alone if one_by_one else _tabulated)(verb, questions, [*names], again)


def _others(verb: str, fields: Fields, name: str) -> list[Any]:
    """Return values of a field that a question does not have, given or by default."""
    now = str(fields.get(name, verb_fields(verb)[name].default))
    return [value for value in others_of(verb)[name] if str(value) != now]


def _tabulated(
    verb: str, questions: dict[str, Asked], names: Sequence[str], again: Collection[str]
) -> Iterator[Change]:
    """Yield the changes of estimates, a table for each field and value."""
    fields = {one: asked.fields for one, asked in questions.items()}
    answers = dict(zip(fields, _estimates(list(fields.values())), strict=True))
    before = {one: answer for one, answer in answers.items() if not answer["error"]}
    for name in names:
        left = {one: _others(verb, fields[one], name) for one in before}
        tried: dict[str, list[Change]] = {one: [] for one in before}
        for place in range(len(others_of(verb)[name])):
            asked = {one: v[place] for one, v in left.items() if place < len(v)}
            rows = [{**fields[one], name: value} for one, value in asked.items()]
            for one, new in zip(asked, _estimates(rows), strict=True):
                outcome = _compared(name, before[one], new)
                tried[one].append(Change(one, name, asked[one], outcome))
                if outcome not in again or place == len(left[one]) - 1:
                    yield min(tried[one], key=_rank)
                    del left[one]


def _rank(change: Change) -> int:
    return ("moved", "remarked", "refused", "ignored").index(change.outcome)


def _estimates(rows: Sequence[Fields]) -> list[Fields]:
    names = dict.fromkeys(name for row in rows for name in row)
    columns = perfatlas.estimate_table({n: [row.get(n) for row in rows] for n in names}).columns
    return [{name: cells[n] for name, cells in columns.items()} for n in range(len(rows))]


def _compared(name: str, old: Fields, new: Fields) -> str:
    if new["error"]:
        return "refused"
    numbers = [
        {k: v for k, v in one.items() if k != "warnings" and v is not None} for one in (old, new)
    ]
    if numbers[0] != numbers[1]:
        return "moved"
    said = set(new["warnings"].split("; ")) - set(old["warnings"].split("; "))
    return "remarked" if any(name in text for text in said) else "ignored"


def _alone(
    verb: str, questions: dict[str, Asked], names: Sequence[str], again: Collection[str]
) -> Iterator[Change]:
    """Yield the changes of questions that are answered one by one."""
    for question, (fields, files) in questions.items():
        ask = _simulate_with({}) if verb == "simulate" else _function(verb)
        with _folder_with(files):
            old = _answer(ask, fields)
            if isinstance(old, str):
                continue
            for name in names:
                tried: list[Change] = []
                for value in _others(verb, fields, name):
                    new = _answer(ask, {**fields, name: value})
                    tried.append(Change(question, name, value, _answered(name, old, new)))
                    if tried[-1].outcome not in again:
                        break
                if tried:
                    yield min(tried, key=_rank)


def _function(verb: str) -> Callable[..., Any]:
    for form in ("kernel op ", "kernel tune "):
        if verb.startswith(form):
            function_of: Callable[..., Any] = getattr(perfatlas, form.strip().replace(" ", "_"))
            return partial(function_of, verb.removeprefix(form))
    function: Callable[..., Any] = getattr(perfatlas, verb.replace(" ", "_"))
    return function


def _simulate_with(known: Priced) -> Callable[..., Any]:
    """Return `simulate` that takes step prices from those of its first call, and keeps no others.

    The tables of every changed field together take hundreds of MB.
    """

    def ask(**fields: Any) -> Any:  # noqa: ANN401 - fields of a question, and its answer
        traffic, scenario = split_fields(fields)
        refuse_unused_options(traffic, scenario)
        own = {**known}
        run = sized_run(traffic, scenario, own)
        answer = simulation_of(run, scenario, fields, own)
        if not known:
            known.update(own)
        return answer

    return ask


@contextlib.contextmanager
def _folder_with(files: dict[str, str]) -> Iterator[None]:
    """Work in a new folder with some files."""
    now = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="golden") as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text, "utf-8")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(now)


def _answered(name: str, old: Any, new: Any) -> str:  # noqa: ANN401 - answers, or texts of refusals
    if isinstance(new, str):
        return "refused"
    if new.results != old.results:
        return "moved"
    remarks = [{*one.evidence.assumptions, *one.warnings} for one in (old, new)]
    return "remarked" if any(name in text for text in remarks[1] - remarks[0]) else "ignored"


def _answer(ask: Callable[..., Any], fields: Fields) -> Any:  # noqa: ANN401 - an answer, or the text of a refusal
    try:
        return ask(**fields)
    except PerfatlasError as problem:
        return str(problem)
