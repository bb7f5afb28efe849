"""Files of clients, by the hash of their contents; an hour after their last use they are deleted.

A value `upload:HASH/NAME` names one wherever the command line takes a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
import threading
import time
import tomllib
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import write_atomic
from perfatlas.quantities import InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_FILE_BYTES: Final = 1 << 26
MAX_BYTES: Final = 1 << 29  # of all files
MAX_ARRIVING: Final = 4  # files at the same time, in memory
MAX_TOML_BYTES: Final = 1 << 24  # no command reads a larger one
KEPT_S: Final = 3600.0
_REFERENCE: Final = re.compile(r"upload:([0-9a-f]{32}/[A-Za-z0-9][\w.+-]{0,79})", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.+-]{0,79}", re.ASCII)
_PATH: Final = re.compile(r"\s*(?:[/\\~]|\.{1,2}[/\\]|[A-Za-z]:\\)")
UPLOAD_LIMIT_S: Final = 300.0  # from the first byte of a file to its last


class Uploads:
    """The files, in a temporary folder that ends with the server."""

    def __init__(self) -> None:
        """Make the folder."""
        self._folder = tempfile.TemporaryDirectory(
            prefix="perfatlas-uploads-", ignore_cleanup_errors=True
        )
        self.path = Path(self._folder.name).resolve()
        self._lock = threading.RLock()  # threads of the server keep and delete files
        self.arriving = asyncio.Semaphore(MAX_ARRIVING)

    def close(self) -> None:
        """Delete all files."""
        self._folder.cleanup()

    def keep(self, name: str, content: bytes) -> str:
        """Return the reference of a file.

        Args:
            name: Its name, as its owner knows it.
            content: What it contains, at most `MAX_FILE_BYTES`.

        Raises:
            InvalidSpecError: It has no usable name, or the disk is full.
        """
        if not _NAME.fullmatch(name):
            raise InvalidSpecError(
                f"the file name {repr_for_error(name)}: expected up to 80 letters, digits and any"
                " of . _ + -; rename the file"
            )
        with self._lock:
            if self.delete_old() > MAX_BYTES - len(content):
                raise InvalidSpecError(
                    f"the files of clients have {MAX_BYTES >> 20} MiB already, the most that this"
                    " server keeps; send the file later"
                )
            key = sha256(content).hexdigest()[:32]
            try:
                Path(self.path, key).mkdir(exist_ok=True)
                write_atomic(str(self.path / key / name), content)
            except OSError as problem:
                raise InvalidSpecError(f"the server cannot keep the file: {problem}") from problem
        return f"upload:{key}/{name}"

    async def clean(self) -> None:
        """Delete old files from time to time, until this is cancelled."""
        while True:
            await asyncio.sleep(KEPT_S / 6.0)
            await asyncio.to_thread(self.delete_old)

    def delete_old(self) -> int:
        """Delete what has not been used for an hour; return the bytes of the other files."""
        total = 0
        for path in self.path.glob("*/*"):
            with self._lock, contextlib.suppress(FileNotFoundError):
                status = path.stat()
                if status.st_mtime > time.time() - KEPT_S:
                    total += status.st_size
                    continue
                path.unlink()
                with contextlib.suppress(OSError):  # it has another name of the same contents
                    path.parent.rmdir()
        return total

    def missing(self, words: Sequence[str]) -> str:
        """Return why the files of a command line cannot be read, "" if all can; they are used."""
        for reference in _REFERENCE.findall(" ".join(words)):
            path = self.path / reference
            if not path.is_file():
                return (
                    f"{path.name} is not kept any more: files are deleted an hour after their last"
                    " use, and when the server ends; choose the file again"
                )
            with contextlib.suppress(OSError):
                path.touch()
        return ""


def is_upload(text: str) -> bool:
    """Return whether a value is the reference of a file."""
    return _REFERENCE.fullmatch(text) is not None


def without_references(text: str) -> str:
    """Return a text in which files have their names, as their owner knows them."""
    return _REFERENCE.sub(lambda found: found[1].partition("/")[2], text)


def located(words: Sequence[str], folder: str) -> list[str]:
    """Return a command line with the paths of its files.

    Raises:
        InvalidSpecError: A TOML file among them names a file of the server.
    """
    for reference in _REFERENCE.findall(" ".join(words)):
        try:
            _check_names_no_file(Path(folder, reference), folder)
        except OSError as problem:
            raise InvalidSpecError(f"{Path(reference).name} is not kept any more") from problem
    return [_REFERENCE.sub(lambda found: f"{folder}/{found[1]}", word) for word in words]


def without_paths(text: str, folder: str) -> str:
    """Return a text without the paths of files of a folder before their names."""
    return re.sub(rf"{re.escape(folder)}/[0-9a-f]{{32}}/", "", text) if folder else text


def _check_names_no_file(path: Path, folder: str) -> None:
    """Refuse what can be read as TOML, whatever its name, and names a file of the server."""
    if path.stat().st_size > MAX_TOML_BYTES:
        return
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError):
        return  # the command says what is wrong
    for text in _texts(table):
        is_sent = text.startswith(f"{folder}/")  # by a client, in a study that is made here
        if "\n" not in text and not is_sent and (_PATH.match(text) or _exists(text)):
            raise InvalidSpecError(
                f"{path.name}: {repr_for_error(text)} looks like the name of a file of the server;"
                " a file that names others can be used on the command line only"
            )


def _exists(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):
        return False


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - a value of TOML
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
