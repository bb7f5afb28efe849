"""Committed lists of measured serving runs: which rows, asked how, with which budget."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

from perfatlas.quantities import InvalidSpecError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator

ANY_NAME = "*"


@dataclass(frozen=True, kw_only=True)
class Ask:
    """How perfatlas is asked for the rows of one model and engine.

    Args:
        model: Model the ask is for, "*" for any.
        backend: Engine the ask is for, "*" for any.
        format: Number format of the GEMMs.
        kv_format: Number format of the KV cache.
        attention_format: Number format of the attention products.
        length_ratio: Mean request length over the nominal one, of input and output.
        ref: Where this is documented.
    """

    model: str
    backend: str
    format: str
    kv_format: str
    attention_format: str
    length_ratio: float
    ref: str

    def fits(self, model: str, backend: str) -> bool:
        """Return whether the ask is for this model and engine."""
        return self.model in {ANY_NAME, model} and self.backend in {ANY_NAME, backend}


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to ask for all rows of a list.

    Args:
        name: Its name.
        primary: Whether it is the one that is scored against the budget.
        note: What it says, in a sentence.
        asks: The first that fits a row is used.
    """

    name: str
    primary: bool
    note: str
    asks: tuple[Ask, ...]

    def ask(self, model: str, backend: str) -> Ask:
        """Return the ask for a model and engine.

        Raises:
            InvalidSpecError: The list has none.
        """
        for ask in self.asks:
            if ask.fits(model, backend):
                return ask
        raise InvalidSpecError(
            f"setting {self.name!r} of the list of measured runs does not say how to ask for"
            f" {model} on {backend}"
        )


@dataclass(frozen=True, kw_only=True)
class ServingList:
    """Measured serving runs chosen beforehand.

    Args:
        name: File name without its ending.
        title: What the rows are.
        sha256: Digest of the file the ids are of.
        settings: Ways to ask; exactly one is primary.
        ids: The rows.
        oversubscribed: Those whose requests cannot all be in memory at a time.
        goal: Errors wanted; empty for a list without one.
        budget: Errors allowed; empty for a list without one.
    """

    name: str
    title: str
    sha256: str
    settings: tuple[Setting, ...]
    ids: tuple[str, ...]
    oversubscribed: frozenset[str]
    goal: dict[str, float]
    budget: dict[str, float]

    @property
    def primary(self) -> Setting:
        """The setting that is scored."""
        return next(setting for setting in self.settings if setting.primary)


def serving_lists() -> tuple[ServingList, ...]:
    """Return the shipped lists, those with a budget first.

    Example:
        >>> from perfatlas.lab.serving_lists import serving_lists
        >>> [len(chosen.ids) for chosen in serving_lists()]
        [492, 138, 189]
    """
    lists = [parse_serving_list(name, text) for name, text in _shipped()]
    return tuple(sorted(lists, key=lambda chosen: (not chosen.budget, chosen.name)))


def _shipped() -> Iterator[tuple[str, str]]:
    folder = resources.files("perfatlas").joinpath("data/validation")
    for entry in folder.iterdir():
        if entry.name.startswith("silicon_sample_") and entry.name.endswith(".toml"):
            yield entry.name.removesuffix(".toml"), entry.read_text(encoding="utf-8")


def parse_serving_list(name: str, text: str) -> ServingList:
    """Return a list of measured runs from its TOML.

    Args:
        name: File name without its ending.
        text: The file.

    Raises:
        InvalidSpecError: Not TOML, a field is missing, an id is listed twice or an oversubscribed
            one is not listed, or there is not exactly one primary setting.
    """
    try:
        data = tomllib.loads(text)
        chosen = _build(name, data)
    except tomllib.TOMLDecodeError as error:
        raise InvalidSpecError(f"list of measured runs {name!r} is not TOML: {error}") from None
    except KeyError as error:
        raise InvalidSpecError(f"list of measured runs {name!r} lacks {error}") from None
    _check(chosen)
    return chosen


def _build(name: str, data: dict[str, Any]) -> ServingList:
    settings = tuple(
        Setting(
            name=entry["name"],
            primary=entry["primary"],
            note=entry["note"],
            asks=tuple(_ask(name, ask) for ask in entry["asks"]),
        )
        for entry in data["settings"]
    )
    return ServingList(
        name=name,
        title=data["title"],
        sha256=data["source"]["sha256"],
        settings=settings,
        ids=tuple(data["rows"]["ids"]),
        oversubscribed=frozenset(data["rows"]["oversubscribed"]),
        goal=dict(data.get("goal", {})),
        budget=dict(data.get("budget", {})),
    )


def _ask(name: str, fields: dict[str, Any]) -> Ask:
    known = tuple(Ask.__dataclass_fields__)
    for field in fields:
        if field not in known:
            raise InvalidSpecError(
                f"list of measured runs {name!r}: unknown field {field!r} of an ask"
                f"{did_you_mean(field, known)}"
            )
    return Ask(**{field: fields[field] for field in known})


def _check(chosen: ServingList) -> None:
    if len(set(chosen.ids)) != len(chosen.ids):
        twice = next(i for i in chosen.ids if chosen.ids.count(i) > 1)
        raise InvalidSpecError(f"list of measured runs {chosen.name!r} has {twice!r} twice")
    stray = sorted(chosen.oversubscribed.difference(chosen.ids))
    if stray:
        raise InvalidSpecError(
            f"list of measured runs {chosen.name!r}: oversubscribed {stray[0]!r} is not among ids"
        )
    primary = [setting.name for setting in chosen.settings if setting.primary]
    if len(primary) != 1:
        raise InvalidSpecError(
            f"list of measured runs {chosen.name!r} needs one primary setting, has {len(primary)}"
        )
