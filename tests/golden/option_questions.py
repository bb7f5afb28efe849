"""Questions beside the golden ones, in which options that those leave without effect are felt."""

from __future__ import annotations

import shlex
from typing import Final

from tests.golden.option_changes import Asked, fields_of
from tests.golden.question import FOLDER, Question

FURTHER: Final = FOLDER / "further_questions.txt"  # a command line of `perfatlas` in each line


def further_questions(verb: str) -> dict[str, Asked]:
    """Return the further questions of a verb, by name.

    Args:
        verb: One of `VERBS`.
    """
    found = {}
    for number, line in enumerate(FURTHER.read_text("utf-8").splitlines(), start=1):
        question = Question(name=f"further-{number:02}", commands=(tuple(shlex.split(line)),))
        fields = fields_of(question) if question.verb == verb else None
        if fields is not None:
            found[question.name] = Asked(fields, {})
    return found
