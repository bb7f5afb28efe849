"""An answer as a terminal has it, and a parser of its page: tags, texts, figures, policy."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from rich.console import Console

from perfatlas.declarations import page_of
from perfatlas.report.pages import print_page

VOID = ("meta", "link", "img", "br", "input", "base")  # without an end


@dataclass
class Parsed(HTMLParser):
    """A parsed page.

    Args:
        tags: Names and attributes, in order.
        texts: Text that is shown, by the name of its innermost tag.
        figures: JSON of charts, by their titles.
        scripts: Attributes and text of script elements.
    """

    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: dict[str, list[str]] = field(default_factory=dict)
    figures: dict[str, dict[str, Any]] = field(default_factory=dict)
    scripts: list[tuple[dict[str, str | None], str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._open: list[str] = []
        self._title = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "figure":
            self._title = found["aria-label"] or ""
        if tag == "script":
            self.scripts.append((found, ""))

    def handle_data(self, data: str) -> None:
        inside = self._open[-1] if self._open else ""
        if inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif data.strip():
            self.texts.setdefault(inside, []).append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        if tag == "script" and self.scripts[-1][0].get("type") == "application/json":
            self.figures[self._title] = json.loads(self.scripts[-1][1])
        while self._open and self._open.pop() != tag:
            pass

    @property
    def policy(self) -> str:
        """Return the content security policy."""
        metas = [found for tag, found in self.tags if tag == "meta"]
        (policy,) = (one["content"] for one in metas if one.get("http-equiv"))
        return policy or ""

    @property
    def addresses(self) -> list[str]:
        """Return all that a browser would load or follow."""
        names = ("src", "href", "action", "data", "srcset", "poster", "background")
        return [str(found[name]) for _, found in self.tags for name in names if name in found]

    @property
    def shown(self) -> str:
        """Return all text that is shown."""
        return "\n".join(
            text for tag, texts in self.texts.items() for text in texts if tag != "style"
        )


def parsed(page: str) -> Parsed:
    """Return a parsed page."""
    reader = Parsed()
    reader.feed(page)
    reader.close()
    return reader


def print_answer(
    console: Console, answer: dict[str, Any], *, reproduce: str, verbose: bool = False
) -> None:
    page = page_of(answer["command"])(answer, reproduce=reproduce)
    print_page(console, page, verbose=verbose)
