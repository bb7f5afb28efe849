"""Changes every field of golden questions alone: `python -m tests.golden.options --all`.

A change moves a number of the answer, is refused, or the answer says that it has no effect. Prints
every change that does none of these and, for each field, the questions of each outcome: "ignored"
has its reason in `UNFELT`, "silent" has none, and exits 1 if there is any. `--each 8` changes a
field until it moved a number of 8 questions, those first that set most of the fields left.
`--record FILE` keeps the questions that are done, so that a later run goes on. `--all` prints last
the outcome of each field in each verb.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests.golden.option_changes import UNFELT, Change, changes, sample
from tests.golden.option_questions import further_questions
from tests.golden.option_values import VERBS, others_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tests.golden.option_changes import Asked

Outcomes = dict[str, Counter[str]]
AT_A_TIME: Final = 40  # questions of one table of estimates
FEW: Final = 8  # of one where each field needs a few
SILENT: Final = "silent"
OUTCOMES: Final = ("moved", "refused", "remarked", "ignored", SILENT)


class Limits(NamedTuple):
    """Where a run ends.

    Args:
        each: Questions that a field moves, None for all.
        end_s: CPU time after which no further question is taken [s].
        at_a_time: Questions changed together.
    """

    each: int | None
    end_s: float
    at_a_time: int


class Record:
    """Changes made so far, kept in a file so that a later run goes on where one stopped.

    Args:
        path: File with a line for each question whose changes were all made; None keeps nothing.
        asked: What is asked; changes of a run that asked something else are not taken.
    """

    def __init__(self, path: Path | None, asked: Sequence[str]) -> None:
        self._path, self._asked = path, [*asked]
        self.changes: dict[str, list[Change]] = {}
        if path is not None and path.exists():
            for line in path.read_text("utf-8").splitlines():
                kept = json.loads(line)
                if kept["asked"] == self._asked:
                    self.changes[kept["question"]] = [Change(*one) for one in kept["changes"]]

    def all(self) -> Iterator[Change]:
        """Yield the changes of all questions."""
        return itertools.chain.from_iterable(self.changes.values())

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


def _change_all(
    verb: str, questions: dict[str, Asked], names: Sequence[str], record: Record, limits: Limits
) -> None:
    """Change the fields of the questions that a record lacks, and add them to it."""
    left = {name: one for name, one in questions.items() if name not in record.changes}
    while left and time.process_time() < limits.end_s:
        moved = Counter(one.field for one in record.all() if one.outcome == "moved")
        wanted = [name for name in names if limits.each is None or moved[name] < limits.each]
        if not wanted:
            break
        if limits.each is not None:  # a field that a question sets is legal beside its others
            given = {name: len({*wanted} & one.fields.keys()) for name, one in left.items()}
            left = {name: left[name] for name in sorted(left, key=given.__getitem__, reverse=True)}
        part = dict(itertools.islice(left.items(), limits.at_a_time))
        again = (
            ("ignored",)
            if limits.each is None
            else tuple(one for one in OUTCOMES if one != "moved")
        )
        record.add(part, changes(verb, part, wanted, again))
        left = {name: one for name, one in left.items() if name not in part}


def _report(verb: str, asked: argparse.Namespace, cpu_s: float) -> Outcomes:
    """Change the fields of questions, print what each field did; return it.

    Args:
        verb: One of `VERBS`.
        asked: The arguments.
        cpu_s: Time after which no further question is taken [s].
    """
    questions, start_s = sample(verb, asked.size) | further_questions(verb), time.process_time()
    names = [*(asked.fields or others_of(verb))]
    record = Record(asked.record, [verb, str(asked.each or ""), *names])
    at_a_time = 1 if verb != "estimate" else AT_A_TIME if asked.each is None else FEW
    _change_all(verb, questions, names, record, Limits(asked.each, start_s + cpu_s, at_a_time))
    reasons = UNFELT.get(verb, {})
    counts = {name: Counter[str]() for name in names}
    for change in (change for name in questions for change in record.changes.get(name, ())):
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
    return counts


def _matrix(found: Mapping[str, Outcomes]) -> str:
    """Return the outcomes of each field in each verb, a line for each field.

    The first of `OUTCOMES` that any question had, "." if it was not asked, none if the verb does
    not have the field; "silent" wins over all others.
    """
    order = (SILENT, *OUTCOMES)
    rows: dict[str, list[str]] = {}
    for verb, counts in found.items():
        for name, outcomes in counts.items():
            first = next((one for one in order if outcomes[one]), ".")
            rows.setdefault(name, []).append(f"{verb} {first}")
    return "".join(f"{name:26} {', '.join(cells)}\n" for name, cells in sorted(rows.items()))


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
    parser.add_argument("--each", type=int, help="questions that a field moves, by default all")
    parser.add_argument("--cpu-minutes", type=float, default=8.0, help="of all verbs together")
    parser.add_argument("--record", type=Path, help="file in which questions are kept once done")
    asked = parser.parse_args(words)
    verbs = VERBS if asked.all else (asked.verb,)
    left_s, found = asked.cpu_minutes * 60.0, dict[str, Outcomes]()
    for index, verb in enumerate(verbs):
        start_s = time.process_time()
        # unused time of a verb goes to those that follow
        found[verb] = _report(verb, asked, left_s / (len(verbs) - index))
        left_s -= time.process_time() - start_s
    if asked.all:
        sys.stdout.write(_matrix(found))
    return int(any(one[SILENT] for counts in found.values() for one in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
