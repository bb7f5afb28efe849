"""Writes `questions.jsonl`: `python -m tests.golden.questions` from the root of the repository.

The file defines the comparison; it is unchanged when the draws change, until it is written again
together with the answers.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING

from tests.golden.draw_estimates import estimates
from tests.golden.draw_fleets import fleets
from tests.golden.draw_goodput import goodputs
from tests.golden.draw_operators import operators
from tests.golden.draw_simulations import simulations
from tests.golden.question import write_questions

if TYPE_CHECKING:
    from tests.golden.question import Question


def drawn() -> list[Question]:
    """Return all questions of the current draws."""
    return [*estimates(), *simulations(), *operators(), *goodputs(), *fleets()]


def main() -> None:
    """Write all questions and print the number per stratum."""
    questions = drawn()
    write_questions(questions)
    for stratum, number in Counter(question.stratum for question in questions).items():
        sys.stdout.write(f"{number:5} {stratum}\n")
    sys.stdout.write(f"{len(questions):5} in all\n")


if __name__ == "__main__":
    main()
