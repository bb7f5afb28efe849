"""Typed and validated reading of config.json fields."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from perfatlas.files import Array, Flag, Text, Whole
from perfatlas.networks.dimensions import MAX_LAYERS, MAX_SIZE, MAX_TOKENS
from perfatlas.quantities import (
    InvalidSpecError,
    UnsupportedError,
    did_you_mean,
    repr_for_error,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

# Orders of magnitude above any model; larger values are typing errors.
MAX_ITEMS: Final = 250_000
_WORD: Final = Text(longest=MAX_SIZE, expected="text")


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The fields of a config.json, and its origin for messages."""

    values: Mapping[str, object]
    origin: str  # File, URL or catalog id, for messages
    spellings: Mapping[str, str] = field(default_factory=dict)  # Keys of the file by name used here

    def invalid(self, name: str, rule: str) -> InvalidSpecError:
        """Return the error for a field with an invalid value."""
        return InvalidSpecError(self._broken(name, rule))

    def unsupported(self, name: str, rule: str) -> UnsupportedError:
        """Return the error for a field with a valid but unsupported value."""
        return UnsupportedError(self._broken(name, rule))

    def _broken(self, name: str, rule: str) -> str:
        text = repr_for_error(self.values[name]) if name in self.values else "missing"
        return f"{self._located(name)} = {text}: {rule}"

    def spelled(self, name: str) -> str:
        """Return the key of the file that has a field, for messages."""
        return self.spellings.get(name, name)

    def _located(self, name: str) -> str:
        return f"{self.origin}: {self.spelled(name)}"

    def has(self, *names: str) -> str | None:
        """Return the first of `names` that is present and not null."""
        return next((name for name in names if self.values.get(name) is not None), None)

    def renamed(self, names: Mapping[str, str]) -> Fields:
        """Return the fields with other spellings of keys also under the names used here.

        Args:
            names: Name used here by the spelling of the family; a key that is present under the
                name used here, or absent, is left alone.
        """
        absent = {ours: theirs for theirs, ours in names.items() if ours not in self.values}
        added = {n: self.values[theirs] for n, theirs in absent.items() if theirs in self.values}
        return replace(
            self, values={**self.values, **added}, spellings={**self.spellings, **absent}
        )

    def integer(
        self,
        *names: str,
        default: int | None = None,
        minimum: int = 1,
        maximum: int = MAX_SIZE,
    ) -> int:
        """Return an integer field under the first of its alternative keys that is present.

        Args:
            default: Default of the config class if absent or null; None means required.
        """
        name = self.has(*names)
        if name is None:
            if default is None:
                if names[0] in self.values:
                    raise self.invalid(names[0], "expected a whole number")
                others = [key for key in self.values if key not in names]
                hint = did_you_mean(self.spelled(names[0]), map(str, others))
                raise InvalidSpecError(f"{self._located(names[0])} is missing{hint}")
            return default
        return Whole(least=minimum, most=maximum).read(self.values[name], self._located(name))

    def boolean(self, *names: str, default: bool) -> bool:
        """Return a boolean field, or its default if absent or null."""
        name = self.has(*names)
        if name is None:
            return default
        value = self.values[name]
        if isinstance(value, str):  # JSON has its own true and false
            raise self.invalid(name, "expected true or false, not text")
        return Flag().read(value, self._located(name))

    def text(self, name: str, *, default: str = "") -> str:
        """Return a string field, or its default if absent or null."""
        value = self.values.get(name)
        if value is None:
            return default
        return _WORD.read(value, self._located(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings, empty if absent or null."""
        value = self._items(name, f"expected a list of at most {MAX_ITEMS:,} strings")
        return Array(of=_WORD).read(value, self._located(name))

    def integers(self, name: str, *, maximum: int) -> tuple[int, ...]:
        """Return a list of integers from 0 to `maximum`, empty if absent or null."""
        rule = f"expected a list of at most {MAX_ITEMS:,} integers from 0 to {maximum:,}"
        value = self._items(name, rule)
        return Array(of=Whole(least=0, most=maximum)).read(value, self._located(name))

    def _items(self, name: str, rule: str) -> list[object]:
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise self.invalid(name, rule)
        return value

    def child(self, name: str) -> Fields | None:
        """Return the fields of a nested object, None if absent or null."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict) or len(value) > MAX_ITEMS:
            raise self.invalid(name, f"expected a JSON object of at most {MAX_ITEMS:,} fields")
        return Fields(values=value, origin=f"{self.origin}: {name}")

    def window(self, name: str = "sliding_window", *, absent: int = 0) -> int:
        """Return a sliding window [tokens]; null means 0 (none), `absent` is the default."""
        return self.tokens(name) if name in self.values else absent

    def num_layers(self) -> int:
        """Return the number of layers, `num_hidden_layers`."""
        return self.integer("num_hidden_layers", maximum=MAX_LAYERS)

    def tokens(self, name: str, *, default: int = 0) -> int:
        """Return a length in tokens, such as a window or the maximum sequence length [tokens]."""
        return self.integer(name, default=default, minimum=0, maximum=MAX_TOKENS)
