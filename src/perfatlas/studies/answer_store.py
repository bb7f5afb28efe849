"""Answers to long questions, in the data folder until the program or its data change."""

from __future__ import annotations

import gzip
import json
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import make_folder, user_folder, write_atomic
from perfatlas.studies.run_folder import data_hashes, versions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_KEPT: Final = 200  # answers; the oldest are deleted


def _folder() -> Path:
    return user_folder("data") / "answers"


def _program() -> str:
    """Return what identifies the program, its data and the files of the user, such as fits."""
    own = [
        (str(path), path.stat().st_mtime_ns)
        for kind in ("config", "data")
        for pattern in ("*.toml", "*/*.toml")
        for path in sorted(user_folder(kind).glob(pattern))
    ]
    return sha256(json.dumps([_shipped(), own]).encode()).hexdigest()[:16]


@cache
def _shipped() -> str:
    return json.dumps([versions(), data_hashes()])


def answer_key(words: Sequence[str]) -> str:
    """Return the key of the answer to a command line."""
    return sha256(json.dumps(list(words)).encode()).hexdigest()[:24]


def keep_answer(key: str, answer: Any) -> None:  # noqa: ANN401 - plain data
    """Keep an answer.

    Args:
        key: That of `answer_key`.
        answer: Plain data.

    Raises:
        InvalidSpecError: It cannot be written.
    """
    folder = _folder()
    make_folder(folder)
    text = json.dumps([_program(), answer])
    write_atomic(str(folder / f"{key}.json.gz"), gzip.compress(text.encode(), 6, mtime=0))
    kept = sorted(folder.glob("*.json.gz"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-MAX_KEPT]:
        path.unlink(missing_ok=True)


def kept_answer(key: str) -> Any:  # noqa: ANN401 - plain data
    """Return an answer that this program gave with these data, None if there is none."""
    path = _folder() / f"{key}.json.gz"
    try:
        program, answer = json.loads(gzip.decompress(path.read_bytes()))
    except (OSError, EOFError, ValueError):  # none, or one that was damaged: it is asked again
        return None
    return answer if program == _program() else None
