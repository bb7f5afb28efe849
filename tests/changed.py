"""What `make check` runs: the tests of what changed since a commit.

Tests stand in folders named as packages. A package changed runs its folder, or that of the
subpackage; a verb, the tests and documents named after it; a field, what is generated from fields;
a document or a test, itself. So do tests elsewhere that import a changed module, or a name that its
package exports from it, unless there are many: then it is part of most answers. Doctests of a
changed module, the architecture and a sample of recorded answers run after every change.

    python tests/changed.py [commit]
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
GIT: Final = shutil.which("git") or "git"
ALWAYS: Final = ("tests/architecture", "tests/golden")
OF_FIELDS: Final = "tests/e2e/test_generated_files.py"
MANY: Final = 8  # files of tests that import a name, from which on it is part of most answers
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
        case ["src", "perfatlas", "vocabulary", "fields", _]:
            yield from ("tests/vocabulary", OF_FIELDS)
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
        yield from _importing(Path(file))


def _importing(path: Path) -> list[str]:
    """Return the tests that import a module, or a name that its package exports from it."""
    module = ".".join(path.with_suffix("").parts).removeprefix("src.").removesuffix(".__init__")
    package = module.rpartition(".")[0]
    patterns = [rf"\b{re.escape(module)}\b"]
    face = ROOT / path.parent / "__init__.py"
    text = face.read_text("utf-8") if face.is_file() else ""
    for block in re.findall(rf"from {re.escape(module)} import (\([^)]*\)|.*)", text):
        names = "|".join(re.findall(r"(\w+) as", block))
        patterns.append(rf"from {re.escape(package)} import [^()]*\b({names})\b")
        patterns.append(rf"from {re.escape(package)} import \([^)]*\b({names})\b")
    either = re.compile("|".join(patterns))
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    found = [str(one.relative_to(ROOT)) for one in tests if either.search(one.read_text("utf-8"))]
    return found if len(found) <= MANY else []


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
