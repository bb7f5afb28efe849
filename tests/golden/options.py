"""Changes every field of golden questions alone: `python -m tests.golden.options --all`.

A change moves a number of the answer, is refused, or the answer says that it has no effect. Prints
every change that does none of these and, for each field, the questions of each outcome: "ignored"
has its reason in `UNFELT`, "silent" has none, and exits 1 if there is any. `--record FILE` keeps
the questions that are done, so that a later run goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shlex
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import perfatlas
from perfatlas.declarations import example_of, verb_fields
from perfatlas.quantities import PerfatlasError
from tests.golden.option_values import VERBS, others_of
from tests.golden.question import Question, read_questions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

Fields = dict[str, Any]
AT_A_TIME: Final = 40  # questions of one table of estimates
SILENT: Final = "silent"
OUTCOMES: Final = ("moved", "refused", "remarked", "ignored", SILENT)
# what changes nothing in one question: a limit that is not reached, or the default in other words
_LIMITS: Final = {
    "max_num_seqs": "a limit above the sequences there are",
    "chunked_prefill": "prompts that fit one step",
    "stream_interval": "an answer shorter than the interval",
    "moe_format": "the format of the checkpoint, whatever it is called",
    "attention_format": "attention that waits for memory at the bound",
    "ep": "experts of one token at the bound",
    "moe_tp": "experts of one token at the bound",
    "power_cap_w": "a limit above what the GPUs draw",
    "pue": "nodes without known power",
    "usd_per_kwh": "nodes without known power",
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
    "search": {
        **dict.fromkeys(
            ("slo_ttft_s", "slo_tpot_s", "slo_itl_s", "slo_request_latency_s"),
            "limits that the same plans meet",
        ),
        "num_simulated": "fewer plans that can be simulated",
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
        field: The field.
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
            fields = _fields_of(question)
            if fields is not None:
                found[question.name] = Asked(fields, question.files)
    recorded = {name: asked for name, asked in found.items() if not name.endswith("example")}
    return recorded or found


def _fields_of(question: Question) -> Fields | None:
    """Return the fields of the command line, None if it has more commands or other options."""
    if len(question.commands) != 1:
        return None
    rows, words = verb_fields(question.verb), [*question.commands[0], "--"]
    fields: Fields = {}
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


def changes(verb: str, questions: dict[str, Asked], names: Iterable[str]) -> Iterator[Change]:
    """Yield every change of some questions.

    Further values are tried where the first is ignored: it may be what holds by default.

    Args:
        verb: One of `VERBS`.
        questions: Fields by the names of the questions.
        names: The fields to change.
    """
    one_by_one = verb != "estimate" or any(asked.files for asked in questions.values())
    return (_alone if one_by_one else _tabulated)(verb, questions, [*names])


def _others(verb: str, fields: Fields, name: str) -> list[Any]:
    """Return values of a field that a question does not have, given or by default."""
    now = str(fields.get(name, verb_fields(verb)[name].default))
    return [value for value in others_of(verb)[name] if str(value) != now]


def _tabulated(verb: str, questions: dict[str, Asked], names: Sequence[str]) -> Iterator[Change]:
    """Yield the changes of estimates, a table for each field and value."""
    fields = {one: asked.fields for one, asked in questions.items()}
    answers = dict(zip(fields, _estimates(list(fields.values())), strict=True))
    before = {one: answer for one, answer in answers.items() if not answer["error"]}
    for name in names:
        left = {one: _others(verb, fields[one], name) for one in before}
        for place in range(len(others_of(verb)[name])):
            asked = {one: v[place] for one, v in left.items() if place < len(v)}
            rows = [{**fields[one], name: value} for one, value in asked.items()]
            for one, new in zip(asked, _estimates(rows), strict=True):
                outcome = _compared(name, before[one], new)
                if outcome != "ignored" or place == len(left[one]) - 1:
                    yield Change(one, name, asked[one], outcome)
                    del left[one]


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


def _alone(verb: str, questions: dict[str, Asked], names: Sequence[str]) -> Iterator[Change]:
    """Yield the changes of questions that are answered one by one."""
    ask: Callable[..., Any] = getattr(perfatlas, verb.replace(" ", "_"))
    for question, (fields, files) in questions.items():
        with _folder_with(files):
            old = _answer(ask, fields)
            if isinstance(old, str):
                continue
            for name in names:
                change = None
                for value in _others(verb, fields, name):
                    new = _answer(ask, {**fields, name: value})
                    change = Change(question, name, value, _answered(name, old, new))
                    if change.outcome != "ignored":
                        break
                if change:
                    yield change


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


def _parts(questions: dict[str, Asked], size: int) -> Iterator[dict[str, Asked]]:
    names = [*questions]
    for start in range(0, len(names), size):
        yield {name: questions[name] for name in names[start : start + size]}


class Record:
    """Changes made so far, kept in a file so that a later run goes on where one stopped.

    Args:
        path: File with a line for each question whose changes were all made; None keeps nothing.
        verb: One of `VERBS`.
        names: The changed fields.
    """

    def __init__(self, path: Path | None, verb: str, names: Sequence[str]) -> None:
        self._path, self._asked = path, [verb, *names]
        self.changes: dict[str, list[Change]] = {}
        if path is not None and path.exists():
            for line in path.read_text("utf-8").splitlines():
                kept = json.loads(line)
                if kept["asked"] == self._asked:
                    self.changes[kept["question"]] = [Change(*one) for one in kept["changes"]]

    def add(self, questions: Iterable[str], found: Iterable[Change]) -> None:
        """Keep the changes of some questions.

        Args:
            questions: Names of the questions.
            found: All their changes.
        """
        of_question: dict[str, list[Change]] = {name: [] for name in questions}
        for change in found:
            of_question[change.question].append(change)
        self.changes |= of_question
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as stream:
                for question, made in of_question.items():
                    kept = {"asked": self._asked, "question": question, "changes": made}
                    stream.write(json.dumps(kept) + "\n")


def _report(verb: str, asked: argparse.Namespace, cpu_s: float) -> int:
    """Change the fields of questions, print what each field did; return the silent changes.

    Args:
        verb: One of `VERBS`.
        asked: The arguments.
        cpu_s: Time after which no further question is taken [s].
    """
    questions, start_s = sample(verb, asked.size), time.process_time()
    names = [*(asked.fields or others_of(verb))]
    record = Record(asked.record, verb, names)
    left = {name: one for name, one in questions.items() if name not in record.changes}
    for part in _parts(left, AT_A_TIME if verb == "estimate" else 1):
        if time.process_time() > start_s + cpu_s:
            break
        record.add(part, changes(verb, part, names))
    found = [change for name in questions for change in record.changes.get(name, ())]
    reasons = UNFELT.get(verb, {})
    counts = {name: Counter[str]() for name in names}
    for change in found:
        silent = change.outcome == "ignored"
        counts[change.field][
            change.outcome if not silent or change.field in reasons else SILENT
        ] += 1
        if silent:
            reason = f" ({reasons[change.field]})" if change.field in reasons else ""
            told = f"{change.question}: {change.field} = {change.value} is ignored{reason}\n"
            sys.stdout.write(told)
    done = sum(name in record.changes for name in questions)
    spent_s = time.process_time() - start_s
    sys.stdout.write(f"{verb}: {done} of {len(questions)} questions, {spent_s:.0f} CPU s\n")
    sys.stdout.write(_table(counts))
    sys.stdout.flush()
    return sum(one[SILENT] for one in counts.values())


def _table(counts: Mapping[str, Counter[str]]) -> str:
    """Return the number of questions of each outcome, a line for each field."""
    lines = [f"  {'field':26}" + "".join(f"{name:>10}" for name in OUTCOMES)]
    every = {**counts, "all": sum(counts.values(), Counter[str]())}
    for field, outcomes in every.items():
        lines.append(f"  {field:26}" + "".join(f"{outcomes[name] or '-':>10}" for name in OUTCOMES))
    return "\n".join(lines) + "\n"


def main(words: Sequence[str] | None = None) -> int:
    """Return 0 where every change that is ignored has a reason, else 1.

    Args:
        words: Arguments of the command line.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verb", choices=VERBS, default="estimate")
    parser.add_argument("--all", action="store_true", help="every verb")
    parser.add_argument("--size", type=int, default=10**6, help="questions of each verb")
    parser.add_argument("--fields", nargs="*", default=(), help="by default all")
    parser.add_argument("--cpu-minutes", type=float, default=8.0, help="of all verbs together")
    parser.add_argument("--record", type=Path, help="file in which questions are kept once done")
    asked = parser.parse_args(words)
    verbs = VERBS if asked.all else (asked.verb,)
    left_s, silent = asked.cpu_minutes * 60.0, 0
    for index, verb in enumerate(verbs):
        start_s = time.process_time()
        # unused time of a verb goes to those that follow
        silent += _report(verb, asked, left_s / (len(verbs) - index))
        left_s -= time.process_time() - start_s
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
