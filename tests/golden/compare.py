"""Compares current answers with the recorded ones: `python -m tests.golden.compare`.

Prints each differing question with key, expected and found value, and exits 1 if there is any.
Answers must be equal to the last digit unless a tolerance is given.
"""

from __future__ import annotations

import argparse
import fnmatch
import resource
import sys
from collections.abc import Sequence
from typing import Final

from tests.golden.answers import (
    Difference,
    Golden,
    differences,
    environment,
    read_answers,
    read_key_map,
    write_answers,
)
from tests.golden.pool import answer_all
from tests.golden.question import Question, has_silicon, read_questions

MAX_SHOWN: Final = 8  # differing keys of one question


def main(words: Sequence[str] | None = None) -> int:
    """Return 0 where all answers are unchanged, 1 where one differs.

    Args:
        words: Arguments of the command line.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*", help="names of questions, such as 'simulate-*'")
    parser.add_argument("--every", type=int, default=1, help="take every n-th question")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument(
        "--tolerance", type=float, default=0.0, help="relative: another order of summation is 1e-12"
    )
    parser.add_argument("--all-keys", action="store_true", help="print every differing key")
    parser.add_argument("--no-preload", action="store_true", help="load simulators in every fork")
    parser.add_argument("--record", metavar="COMMIT", help="write the answers, with this commit")
    asked = parser.parse_args(words)
    questions = read_questions()
    chosen = [n for n, one in enumerate(questions) if fnmatch.fnmatch(one.name, asked.only)]
    chosen = chosen[:: asked.every]
    if asked.record:
        return _record(questions, commit=asked.record, jobs=asked.jobs)
    if not has_silicon():
        left = [number for number in chosen if not questions[number].silicon]
        sys.stdout.write(f"{len(chosen) - len(left)} skipped: aiconfigurator-core is missing\n")
        chosen = left
    most = sys.maxsize if asked.all_keys else MAX_SHOWN
    golden = read_answers()
    keys = read_key_map(recorded=golden.answers)
    tolerance = asked.tolerance
    rule = f"relative tolerance {tolerance:g}" if tolerance else "equal to the last digit"
    sys.stdout.write(f"{len(chosen)} questions, recorded by {golden.commit}; {rule}\n")
    if golden.environment != environment():
        sys.stdout.write("recorded on another machine or with other packages\n")
    failed = 0
    for number, answer in answer_all(chosen, jobs=asked.jobs, preload=not asked.no_preload):
        name = questions[number].name
        found = [*differences(name, golden.answers[name], answer, keys=keys, tolerance=tolerance)]
        failed += bool(found)
        _show(questions[number], found, most=most)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    by_intent = [
        questions[number].name for number in chosen if questions[number].name in keys.changed
    ]
    sys.stdout.write(
        f"{failed} of {len(chosen)} differ, {len(by_intent)} others by intent; {seconds:.0f}"
        " CPU-seconds\n"
    )
    return 1 if failed else 0


def _show(question: Question, found: Sequence[Difference], *, most: int) -> None:
    if not found:
        return
    for command in question.commands:
        sys.stdout.write(f"{question.name}: perfatlas {' '.join(command)}\n")
    for difference in found[:most]:
        sys.stdout.write(f"  {difference}\n")
    if len(found) > most:
        sys.stdout.write(f"  and {len(found) - most} more keys\n")


def _record(questions: Sequence[Question], *, commit: str, jobs: int) -> int:
    answers = {
        questions[number].name: answer
        for number, answer in answer_all(range(len(questions)), jobs=jobs)
    }
    write_answers(Golden(commit=commit, environment=environment(), answers=answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())
