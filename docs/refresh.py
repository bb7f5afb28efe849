"""Renew the output of every command quoted in the documents, and their pictures.

A fenced `console` block that starts with `$ perfatlas ...` or `$ python -m validation ...` holds
the exact output of that command at 80 columns; a line `...` stands for lines that are left out.
The commands of a document run in order in a new folder that has `examples`, so that one may read a
file that an earlier one wrote. A command of a fenced `sh` block that writes `--figure NAME` makes
the picture `docs/images/NAME`, if there is one or the document shows it. `python docs/refresh.py`
rewrites outputs and pictures; `--check` exits 1 where one is out of date.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parents[1]
PROGRAMS = {"perfatlas": "perfatlas", "python -m validation": "validation"}  # modules that are run
BLOCK = re.compile(
    rf"(```console\n\$ ((?:{'|'.join(PROGRAMS)})(?:[^\n\\]|\\\n)*)\n)(.*?)(```)", re.DOTALL
)

SHELL = re.compile(r"```sh\n(.*?)```", re.DOTALL)
COMMAND = re.compile(r"^perfatlas(?:[^\n\\#]|\\\n)*", re.MULTILINE)
FIGURE = re.compile(r"--figure ([\w.-]+)")
IMAGES = ROOT / "docs" / "images"

TERMINAL = {"COLUMNS": "80", "NO_COLOR": "1"}
LEFT_OUT = "..."  # stands for lines of an output that are not quoted
NEEDS_EXTRA = 6  # exit code of a command whose optional package is not installed


def documents() -> list[Path]:
    """Return every Markdown file that may quote a command."""
    folders = (ROOT / "docs", ROOT / "validation" / "pages")
    return [
        ROOT / "README.md",
        *sorted(page for folder in folders for page in folder.rglob("*.md")),
    ]


def words_of(command: str) -> tuple[str, list[str]]:
    """Return the module that a quoted command runs, and the words after it."""
    program = next(text for text in PROGRAMS if command.startswith(text))
    words = command.removeprefix(program).replace("\\\n", " ")
    return PROGRAMS[program], shlex.split(words)


def prepare(folder: Path) -> None:
    """Make a folder one in which the commands of a document can run."""
    (folder / "examples").symlink_to(ROOT / "examples", target_is_directory=True)


def output_of(command: str, folder: Path = ROOT) -> str | None:
    """Return what a quoted command prints, without colours; None where a package is missing.

    Args:
        command: As quoted.
        folder: Where it runs.
    """
    own = {"XDG_DATA_HOME": str(folder / "data")}  # no run of the user is used or added
    paths = {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    environment = {**os.environ, **TERMINAL, **own, **paths, "PYTHONIOENCODING": "utf-8"}
    program, words = words_of(command)
    done = subprocess.run(  # noqa: S603 - our own program with words of our own documents
        [sys.executable, "-m", program, *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
        encoding="utf-8",
    )
    return None if done.returncode == NEEDS_EXTRA else done.stdout or done.stderr


def renewed(text: str, ask: Callable[[str], str | None] = output_of) -> str:
    """Return a document with every quoted output as it is now.

    A command whose optional packages are not installed keeps the output it has.

    Args:
        ask: Returns what a command prints, None to keep what is quoted.
    """

    def quoted(found: re.Match[str]) -> str:
        output = ask(found[2])
        return found[0] if output is None else f"{found[1]}{excerpt(output, found[3])}\n{found[4]}"

    return BLOCK.sub(quoted, text)


def excerpt(output: str, quoted: str) -> str:
    """Return an output, or as many lines before and after `...` as are quoted."""
    lines, all_lines = quoted.splitlines(), output.rstrip().splitlines()
    if LEFT_OUT not in lines:
        return "\n".join(all_lines)
    before = lines.index(LEFT_OUT)
    after = len(all_lines) - (len(lines) - before - 1)
    return "\n".join([*all_lines[:before], LEFT_OUT, *all_lines[after:]])


def renewed_document(path: Path) -> str:
    """Return the text of a document with every quoted output as it is now."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        return renewed(path.read_text("utf-8"), partial(output_of, folder=Path(folder)))


def drawings(text: str) -> dict[str, list[str]]:
    """Return the pictures that a document shows, each with the commands that draw it.

    The commands are those of its `sh` block, up to the one that writes the picture.
    """
    found: dict[str, list[str]] = {}
    for block in SHELL.findall(text):
        commands = COMMAND.findall(block)
        for number, command in enumerate(commands, 1):
            name = FIGURE.search(command)
            if name and f"images/{name[1]})" in text:
                others = [one for one in commands[: number - 1] if not FIGURE.search(one)]
                found[name[1]] = [*others, command]
    return found


def drawn(name: str, commands: Iterable[str]) -> bytes | None:
    """Return the picture that commands draw; None where a package is missing."""
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        if None in [output_of(command, Path(folder)) for command in commands]:
            return None
        return Path(folder, name).read_bytes()


def renew_images(text: str, *, check: bool) -> int:
    """Rewrite the pictures of a document, and return how many were out of date."""
    stale = 0
    for name, commands in drawings(text).items():
        image = drawn(name, commands)
        path = IMAGES / name
        if image is None or (path.exists() and path.read_bytes() == image):
            continue
        stale += 1
        if check:
            sys.stderr.write(f"docs/images/{name}: run python docs/refresh.py\n")
        else:
            path.write_bytes(image)
    return stale


def main() -> int:
    """Rewrite the documents, or those named; with --check say which are out of date."""
    check = "--check" in sys.argv[1:]
    named = [Path(word).resolve() for word in sys.argv[1:] if word != "--check"]
    stale = 0
    for path in named or documents():
        text = renewed_document(path)
        stale += renew_images(text, check=check)
        if text == path.read_text("utf-8"):
            continue
        stale += 1
        if check:
            sys.stderr.write(f"{path.relative_to(ROOT)}: run python docs/refresh.py\n")
        else:
            path.write_text(text, "utf-8")
    return int(check and stale > 0)


if __name__ == "__main__":
    raise SystemExit(main())
