"""Whether tests catch mutations of formulas, rules and messages.

The tests of each area of `mutations.toml` run once on a copy of the package as it is, where all
must pass, and with each mutation until one fails. Ends with 1 if all pass with one of them, which
has survived. An error while tests are collected, or an interruption, is none that a test caught.

    python -m tests.mutations [area ...]
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
TABLE: Final = Path(__file__).with_suffix(".toml")
PYTEST: Final = ("-m", "pytest", "-q", "-x", "-p", "no:randomly", "-o", "timeout=300")
PASSED: Final = 0  # exit codes of pytest; others are of runs that no test decided
FAILED: Final = 1


class Mutation(NamedTuple):
    """A change that a test must notice.

    Args:
        area: Name of its table.
        tests: What runs.
        file: File, relative to the package.
        old: Text that occurs once in it.
        new: Text in its place.
        breaks: What it breaks.
    """

    area: str
    tests: Sequence[str]
    file: str
    old: str
    new: str
    breaks: str

    def changed(self, text: str) -> str:
        """Return the text of the file with the mutation.

        Args:
            text: The text of the file.
        """
        if text.count(self.old) != 1:
            sys.exit(f"{self.file}: {self.old!r} occurs {text.count(self.old)} times")
        return text.replace(self.old, self.new)


def mutations(areas: Sequence[str] = ()) -> Iterator[Mutation]:
    """Yield the mutations of areas, by default of all.

    Args:
        areas: Names of tables.
    """
    for area, table in tomllib.loads(TABLE.read_text("utf-8")).items():
        if not areas or area in areas:
            for row in table["mutations"]:
                yield Mutation(area, table["tests"], *row)


def fails(tests: Sequence[str], source: Path) -> bool:
    """Return whether one of the tests fails.

    Args:
        source: Folder of the package that they test.
    """
    done = subprocess.run(
        [sys.executable, *PYTEST, *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode not in (PASSED, FAILED):
        sys.exit(f"pytest ends with {done.returncode}: {' '.join(tests)}")
    return done.returncode == FAILED


def is_caught(mutation: Mutation, source: Path) -> bool:
    """Return whether a test fails with a mutation.

    Args:
        source: Folder of a copy of the package, which is as before afterwards.
    """
    path = source / "perfatlas" / mutation.file
    text = path.read_text("utf-8")
    try:
        path.write_text(mutation.changed(text), "utf-8")
        return fails(mutation.tests, source)
    finally:
        path.write_text(text, "utf-8")


def main() -> int:
    """Print a line for each mutation, and how many tests caught."""
    survived = count = 0
    passing: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        for mutation in mutations(sys.argv[1:]):
            if mutation.area not in passing and fails(mutation.tests, source):
                sys.exit(f"{mutation.area}: a test fails without a mutation")
            passing.add(mutation.area)
            caught = is_caught(mutation, source)
            count, survived = count + 1, survived + (not caught)
            told = "caught" if caught else "SURVIVED"
            sys.stdout.write(f"{told:9} {mutation.area}: {mutation.breaks} ({mutation.file})\n")
    sys.stdout.write(f"{count - survived} of {count} mutations caught\n")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main())
