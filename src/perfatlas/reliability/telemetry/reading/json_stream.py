"""Streaming items of a list in a JSON document of any length, or of JSON Lines."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import repr_for_error
from perfatlas.reliability.telemetry.reading.lines import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfatlas.reliability.telemetry.reading.lines import LogFile

LONGEST_ITEM: Final = 1 << 26  # characters
BY_LINE: Final = "files with one object per line must end in .jsonl or .ndjson (also .gz)"
_BLANK: Final = " \t\r\n"
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def stream_items(file: LogFile, key: str) -> Iterator[tuple[int, Any]]:
    """Yield number and value of the items of a list, under `key` or the whole document.

    Args:
        file: The log: {"...": ..., key: [item, ...], ...} or [item, ...].

    Raises:
        InvalidSpecError: It is not JSON, is truncated, or has no such list; the message names the
            record.
    """
    text = _Text(file)
    if text.peek() == "[":
        yield from text.items()
        text.end()
        return
    found = False
    text.take("{")
    while text.peek() != "}":
        name = text.value()
        text.take(":")
        if name == key:
            if found or text.peek() != "[":
                raise refuse(file.path, 0, f"{key!r} is not a single list")
            found = True
            yield from text.items()
        else:
            text.value()
        if text.peek() != ",":
            break
        text.take(",")
    text.take("}")
    text.end()
    if not found:
        raise refuse(file.path, 0, f"no list {key!r} in the document; {BY_LINE}")


def json_lines(file: LogFile) -> Iterator[tuple[int, Any]]:
    """Yield number and value of each line; None for a blank line.

    Args:
        file: The log, one object per line.

    Raises:
        InvalidSpecError: A line is not a JSON object; the message states whether the file is
            truncated.
    """
    for line in file.lines():
        if not line.text.strip():
            yield line.number, None
            continue
        try:
            item = _DECODER.decode(line.text)
            _check_characters(line.text, item)
        except (ValueError, RecursionError) as problem:
            why = "not JSON" if line.ended else "the file is truncated in this line, or not JSON"
            raise refuse(
                file.path, line.number, f"{why} ({problem}): {repr_for_error(line.text)}"
            ) from problem
        if not isinstance(item, Mapping):
            raise refuse(file.path, line.number, f"{repr_for_error(item)} is not an object {{...}}")
        yield line.number, item


def _check_characters(text: str, value: Any) -> None:  # noqa: ANN401
    """Raise for a lone surrogate, which JSON can escape but UTF-8 cannot encode.

    Raises:
        UnicodeEncodeError: There is a lone surrogate.
    """
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False).encode()


class _Text:
    """The characters of a document, with only the current part in memory."""

    def __init__(self, file: LogFile) -> None:
        self.file = file
        self.blocks = file.blocks()
        self.held = ""
        self.place = 0
        self.item = 0

    def peek(self) -> str:
        """Return the next character that is not blank."""
        while True:
            while self.place < len(self.held) and self.held[self.place] in _BLANK:
                self.place += 1
            if self.place < len(self.held):
                return self.held[self.place]
            if not self._more():
                raise self._cut_off()

    def take(self, wanted: str) -> None:
        """Skip an expected character."""
        found = self.peek()
        if found != wanted:
            raise self._wrong(f"expected {wanted!r}, found {repr_for_error(found)}")
        self.place += 1

    def value(self) -> Any:  # noqa: ANN401
        """Return the next value."""
        self.peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self.held, self.place)
                _check_characters(self.held[self.place : end], value)
            except UnicodeEncodeError as problem:
                raise self._wrong("a lone surrogate in a text is not valid") from problem
            except RecursionError as problem:
                raise self._wrong("nested too deeply") from problem
            except ValueError as problem:
                # Double the text each time, so that a long value is not decoded too often.
                if self._more(at_least=len(self.held) - self.place):
                    continue
                if "is not JSON" in str(problem):
                    raise self._wrong(str(problem)) from problem
                raise self._cut_off() from problem
            if end == len(self.held) and self._more():
                continue  # a number may continue in the next block
            self.place = end
            return value

    def items(self) -> Iterator[tuple[int, Any]]:
        """Yield number and value of the items of a list."""
        self.take("[")
        while self.peek() != "]":
            self.item += 1
            yield self.item, self.value()
            if self.peek() != ",":
                break
            self.take(",")
        self.take("]")

    def end(self) -> None:
        """Raise for anything but whitespace after the document."""
        while True:
            if self.held[self.place :].strip():
                raise self._wrong(f"text after the end of the document; {BY_LINE}")
            self.place = len(self.held)
            if not self._more():
                return

    def _more(self, at_least: int = 1) -> bool:
        parts = [self.held[self.place :]]
        added = 0
        while added < at_least:
            block = next(self.blocks, "")
            if not block:
                break
            parts.append(block)
            added += len(block)
        if not added:
            return False
        self.held, self.place = "".join(parts), 0
        if len(self.held) > LONGEST_ITEM:
            raise self._wrong(f"longer than {LONGEST_ITEM >> 20} million characters, or not JSON")
        return True

    def _cut_off(self) -> Exception:
        return self._wrong("not JSON, or the file is truncated here")

    def _wrong(self, problem: str) -> Exception:
        near = repr_for_error(self.held[self.place : self.place + 40])
        where = f"record {self.item}" if self.item else "before the first record"
        return refuse(self.file.path, 0, f"{where}: {problem}; near {near}")
