"""Seeded random draws for questions."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING, Final, TypeVar

from tests.golden.question import Question

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")
Fields = dict[str, object]

SEED: Final = 20260112
ENGINES: Final = ("vllm", "sglang", "trtllm", "ideal")
TIERS: Final = ("auto", "bound", "physics")
LLAMA_8B: Final = "meta-llama/Llama-3.1-8B-Instruct"
LLAMA_70B: Final = "meta-llama/Llama-3.1-70B-Instruct"
DEEPSEEK: Final = "deepseek-ai/DeepSeek-V3"
# Model -> a tensor-parallel size that fits on H200s.
MODELS: Final = {
    LLAMA_8B: 1,
    LLAMA_70B: 4,
    "Qwen/Qwen3-32B": 2,
    "google/gemma-3-27b-it": 2,
    "Qwen/Qwen3-30B-A3B": 2,
    "Qwen/Qwen3-235B-A22B": 8,
    "openai/gpt-oss-20b": 1,
    "mistralai/Mixtral-8x7B-Instruct-v0.1": 2,
    "deepseek-ai/DeepSeek-V2-Lite": 1,
    DEEPSEEK: 8,
    "ai21labs/AI21-Jamba-1.5-Mini": 2,
    "Qwen/Qwen3-Next-80B-A3B-Instruct": 4,
}


class Draw:
    """Random choices of one stratum, independent of other strata."""

    def __init__(self, stratum: str) -> None:
        """Seed from the name of the stratum."""
        self.stratum = stratum
        digest = hashlib.sha256(f"{SEED}/{stratum}".encode()).digest()
        self.random = random.Random(int.from_bytes(digest[:8], "big"))  # noqa: S311 - no secret
        self.questions: list[Question] = []

    def one(self, choices: Sequence[T]) -> T:
        """Return one of several."""
        return choices[self.random.randrange(len(choices))]

    def power(self, low: int, high: int) -> int:
        """Return a power of two, exponents included."""
        return int(1 << self.random.randint(low, high))

    def whole(self, low: int, high: int) -> int:
        """Return a log-uniform whole number."""
        drawn: float = low * (high / low) ** self.random.random()
        return round(drawn)

    def real(self, low: float, high: float) -> float:
        """Return a log-uniform number of three digits."""
        return float(f"{low * (high / low) ** self.random.random():.3g}")

    def ask(
        self,
        verb: str,
        fields: Mapping[str, object],
        *,
        simulator: str = "",
        silicon: bool = False,
        files: Mapping[str, str] | None = None,
        tables: Sequence[str] = (),
    ) -> None:
        """Add a question of one command line, answered as JSON.

        Args:
            verb: With its sub-verb and positional arguments.
            fields: Name -> value; True is a flag, None and False are omitted, a list is repeated.
            simulator: Simulator used.
            silicon: Whether measured tables are needed.
            files: Files read by the command.
            tables: Tables written by the command.
        """
        words = (*verb.split(), *flags(fields), "--json")
        self.add((words,), simulator=simulator, silicon=silicon, files=files, tables=tables)

    def add(
        self,
        commands: Sequence[Sequence[str]],
        *,
        simulator: str = "",
        silicon: bool = False,
        files: Mapping[str, str] | None = None,
        tables: Sequence[str] = (),
    ) -> None:
        """Add a question of several command lines, as for `ask`."""
        question = Question(
            name=f"{self.stratum}-{len(self.questions):02}",
            commands=tuple(tuple(words) for words in commands),
            files=dict(files or {}),
            tables=tuple(tables),
            simulator=simulator,
            silicon=silicon,
        )
        self.questions.append(question)


def flags(fields: Mapping[str, object]) -> list[str]:
    """Return fields as words of a command line.

    Args:
        fields: Name -> value; True is a flag, None and False are omitted, a list is repeated.
    """
    words: list[str] = []
    for name, value in fields.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words += [word for one in value for word in (flag, str(one))]
        else:
            words += [flag, str(value)]
    return words


def table_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Return rows as CSV; the columns are the names of all rows, missing cells are empty.

    Args:
        rows: Name -> cell; no cell holds a comma.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(str(row.get(name, "")) for name in names) for row in rows]
    return "\n".join([",".join(names), *lines]) + "\n"
