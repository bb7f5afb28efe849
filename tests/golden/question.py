"""One question of questions.jsonl: command lines, the files they read, the tables they write."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
QUESTIONS: Final = FOLDER / "questions.jsonl"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question to perfatlas.

    Attributes:
        name: Unique; the stratum and a number.
        commands: Arguments of `perfatlas`, for one or several consecutive command lines.
        files: Name -> text of the input files.
        tables: Output files that are read back as rows.
        simulator: serving, goodput or schedule, "" for none.
        silicon: Whether the optional package of measured tables is needed.
    """

    name: str
    commands: tuple[tuple[str, ...], ...]
    files: dict[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    simulator: str = ""
    silicon: bool = False

    @property
    def stratum(self) -> str:
        """The stratum of the question."""
        return self.name.rpartition("-")[0]

    @property
    def verb(self) -> str:
        """The first word, two where a verb has sub-verbs, or three of `kernel` with kernels."""
        words = self.commands[0]
        groups = ("kernel", "fleet", "goodput", "catalog", "search")
        paired = len(words) > 1 and words[0] in groups and not words[1].startswith("-")
        deep = words[1:2] in (("design",), ("op",), ("tune",)) and not words[2].startswith("-")
        return " ".join(words[: 3 if deep else 2 if paired else 1])


def has_silicon() -> bool:
    """Return whether the optional package of measured tables is installed."""
    return importlib.util.find_spec("aiconfigurator_core") is not None


@cache
def read_questions() -> list[Question]:
    """Return the golden questions, in order."""
    rows = [json.loads(line) for line in QUESTIONS.read_text("utf-8").splitlines()]
    return [
        Question(
            name=row["name"],
            commands=tuple(tuple(words) for words in row["commands"]),
            files=row.get("files", {}),
            tables=tuple(row.get("tables", ())),
            simulator=row.get("simulator", ""),
            silicon=row.get("silicon", False),
        )
        for row in rows
    ]
