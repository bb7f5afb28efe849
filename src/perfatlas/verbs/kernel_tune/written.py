"""The folder of `kernel tune --output`: source, launch table, all designs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import write_atomic
from perfatlas.lab.tune import launch_table, source_text
from perfatlas.quantities import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from perfatlas.verbs.kernel_tune.answer import Tuned

ANSWER: Final = "answer.json"


def check_folder(folder: Path) -> None:
    """Make a folder before anything is computed.

    Raises:
        UsageError: It is a file, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(
            f"--output {folder} is no folder that can be written: {problem.strerror}; name another"
        ) from problem


def write_folder(folder: Path, found: Tuned) -> list[Path]:
    """Write source, launch tables and the answer; return their paths."""
    files: dict[str, Any] = {ANSWER: found.answer.to_dict()}
    for kernel in dict.fromkeys(one.question.kernel for one in found.tunings):
        group = [one for one in found.tunings if one.question.kernel == kernel]
        files |= launch_table(group)
        for name, text in source_text(group).items():
            files[name] = text
    written = []
    for name, content in files.items():
        path = folder / name
        text = content if isinstance(content, str) else json.dumps(content, indent=2) + "\n"
        write_atomic(path, text)
        written.append(path)
    return written
