"""Questions that a user keeps under a name, in the user's data folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from perfatlas.files import Text, make_folder, user_folder, write_atomic
from perfatlas.quantities import InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from pathlib import Path

MAX_SAVED: Final = 500
_NAME: Final = Text(empty=False, longest=80, expected="a name of at most 80 characters")
_ADDRESS: Final = Text(empty=False, longest=32_768, expected="the address of a question")


def _file() -> Path:
    return user_folder("data") / "saved_questions.json"


def saved_questions() -> dict[str, str]:
    """Return the address of each saved question by name, in order of names.

    Raises:
        InvalidSpecError: The file cannot be read.
    """
    path = _file()
    try:
        saved = json.loads(path.read_text("utf-8")) if path.exists() else {}
        found = {
            _NAME.read(name, f"{path}"): _ADDRESS.read(address, f"{path}: {name}")
            for name, address in saved.items()
        }
    except (OSError, ValueError, AttributeError) as problem:
        raise InvalidSpecError(
            f"cannot read the saved questions {path}: {problem}; mend the file or move it away"
        ) from problem
    return dict(sorted(found.items()))


def save_question(name: str, address: str | None) -> None:
    """Keep a question under a name, in place of another of that name.

    Args:
        name: Its name.
        address: Its path and query; None to forget it.

    Raises:
        InvalidSpecError: The name is invalid or unknown, there are too many, or the file cannot be
            read.
    """
    name = _NAME.read(name.strip(), "name")
    saved = saved_questions()
    if address is None:
        if name not in saved:
            raise InvalidSpecError(f"no question is saved as {repr_for_error(name)}")
        del saved[name]
    else:
        saved[name] = _ADDRESS.read(address, "address")
    if len(saved) > MAX_SAVED:
        raise InvalidSpecError(f"{MAX_SAVED} questions are saved already; delete one first")
    make_folder(_file().parent)
    write_atomic(str(_file()), json.dumps(saved, indent=1, ensure_ascii=False).encode())
