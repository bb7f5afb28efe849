"""What `make check` runs: the tests of what changed since a commit.

Tests stand in folders named as packages. A package changed runs its folder, or that of the
subpackage; a verb, the tests and documents named after it; a document or a test, itself. Doctests
of a changed module, the architecture and a sample of recorded answers run after every change.

    python tests/changed.py [commit]
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
GIT: Final = shutil.which("git") or "git"
ALWAYS: Final = ("tests/architecture", "tests/golden")
QUOTED: Final = (
    "tests/e2e/test_documents.py::"
    "test_every_output_quoted_in_a_document_is_what_the_command_prints[docs/{}.md]"
)


def changed_files(base: str) -> list[str]:
    """Return the files that differ from a commit, and new ones."""
    listed = []
    for words in (["diff", "--name-only", base], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run([GIT, *words], cwd=ROOT, capture_output=True, text=True, check=True)
        listed += done.stdout.split()
    return sorted(set(listed))


def tests_of(file: str) -> Iterator[str]:
    """Yield the tests of one file, as arguments of pytest; some may not exist."""
    match Path(file).parts:
        case ["src", "perfatlas", "verbs", verb, *_]:
            yield from (str(path.relative_to(ROOT)) for path in _named(verb))
            yield QUOTED.format(verb)
        case ["src", "perfatlas", package, *rest]:
            inner = Path("tests", package, *rest[:1])
            yield str(inner if (ROOT / inner).is_dir() else inner.parent)
        case ["tests", *_] if Path(file).name.startswith("test_"):
            yield file
        case ["tests", folder, _, *_]:
            yield f"tests/{folder}"
        case ["validation", *_]:
            yield "tests/validation"
        case ["docs", name] if name.endswith(".md"):
            yield file
            yield QUOTED.format(name.removesuffix(".md"))
    if file.startswith(("src/", "validation/")) and file.endswith(".py"):
        yield file


def _named(verb: str) -> list[Path]:
    """Return the tests with a verb in their name or in that of a folder."""
    return [
        path
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if verb in path.stem.split("_") or verb in path.relative_to(ROOT).parts
    ]


def main() -> None:
    """Print the arguments of pytest for what changed."""
    found = {*ALWAYS}
    for file in changed_files(*(sys.argv[1:] or ["main"])):
        found |= set(tests_of(file))
    there = (name for name in found if (ROOT / name.partition("::")[0]).exists())
    sys.stdout.write(" ".join(sorted(there)) + "\n")


if __name__ == "__main__":
    main()
