"""Typed and validated reading of config.json fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, UnsupportedError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Mapping

# Orders of magnitude above any model; larger values are typing errors.
MAX_SIZE: Final = 10_000_000
MAX_LAYERS: Final = 10_000
MAX_TOKENS: Final = 1_000_000_000
MAX_ITEMS: Final = 250_000


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The fields of a config.json, and its origin for messages.

    Args:
        values: The JSON object.
        origin: File, URL or catalog id, for messages.
    """

    values: Mapping[str, object]
    origin: str

    def invalid(self, name: str, rule: str) -> InvalidSpecError:
        """Return the error for a field with an invalid value."""
        text = repr_for_error(self.values[name]) if name in self.values else "missing"
        return InvalidSpecError(f"{self.origin}: {name} = {text}: {rule}")

    def unsupported(self, name: str, rule: str) -> UnsupportedError:
        """Return the error for a field with a valid but unsupported value."""
        text = repr_for_error(self.values[name]) if name in self.values else "missing"
        return UnsupportedError(f"{self.origin}: {name} = {text}: {rule}")

    def has(self, *names: str) -> str | None:
        """Return the first of `names` that is present and not null."""
        return next((name for name in names if self.values.get(name) is not None), None)

    def integer(
        self,
        *names: str,
        default: int | None = None,
        minimum: int = 1,
        maximum: int = MAX_SIZE,
    ) -> int:
        """Return an integer field under the first of its alternative keys that is present.

        Args:
            *names: The key and its alternatives.
            default: Default of the config class if absent or null; None means required.
            minimum: Minimum.
            maximum: Maximum.

        Raises:
            InvalidSpecError: The field is missing without a default, no integer, or out of range.
        """
        name = self.has(*names)
        if name is None:
            if default is None:
                raise self.invalid(names[0], f"{_of_type(minimum)} is required")
            return default
        value = self.values[name]
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.invalid(name, f"must be {_of_type(minimum)}")
        if not minimum <= value <= maximum:
            raise self.invalid(name, f"must be between {minimum} and {maximum}")
        return value

    def boolean(self, *names: str, default: bool) -> bool:
        """Return a boolean field, or its default if absent or null.

        Raises:
            InvalidSpecError: The value is not a boolean.
        """
        name = self.has(*names)
        if name is None:
            return default
        value = self.values[name]
        if not isinstance(value, bool):
            raise self.invalid(name, "must be true or false")
        return value

    def text(self, name: str, *, default: str = "") -> str:
        """Return a string field, or its default if absent or null.

        Raises:
            InvalidSpecError: The value is not a string.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.invalid(name, "must be a string")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings, empty if absent or null.

        Raises:
            InvalidSpecError: The value is not a list of strings.
        """
        rule = f"must be a list of at most {MAX_ITEMS} strings"
        value = self._items(name, rule)
        items = [item for item in value if isinstance(item, str)]
        if len(items) != len(value):
            raise self.invalid(name, rule)
        return tuple(items)

    def integers(self, name: str, *, maximum: int) -> tuple[int, ...]:
        """Return a list of integers from 0 to `maximum`, empty if absent or null.

        Raises:
            InvalidSpecError: The value is not such a list.
        """
        rule = f"must be a list of at most {MAX_ITEMS} integers from 0 to {maximum}"
        value = self._items(name, rule)
        items = [i for i in value if isinstance(i, int) and not isinstance(i, bool)]
        if len(items) != len(value) or any(not 0 <= i <= maximum for i in items):
            raise self.invalid(name, rule)
        return tuple(items)

    def _items(self, name: str, rule: str) -> list[object]:
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > MAX_ITEMS:
            raise self.invalid(name, rule)
        return value

    def child(self, name: str) -> Fields | None:
        """Return the fields of a nested object, None if absent or null.

        Raises:
            InvalidSpecError: The value is not a JSON object.
        """
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict) or len(value) > MAX_ITEMS:
            raise self.invalid(name, f"must be a JSON object of at most {MAX_ITEMS} fields")
        return Fields(values=value, origin=f"{self.origin}: {name}")

    def window(self, name: str = "sliding_window", *, absent: int = 0) -> int:
        """Return a sliding window [tokens]; null means 0 (none), `absent` is the default.

        Raises:
            InvalidSpecError: The value is not an integer in range.
        """
        return self.tokens(name) if name in self.values else absent

    def num_layers(self) -> int:
        """Return the number of layers, `num_hidden_layers`."""
        return self.integer("num_hidden_layers", maximum=MAX_LAYERS)

    def tokens(self, name: str, *, default: int = 0) -> int:
        """Return a length in tokens, such as a window or the maximum sequence length [tokens]."""
        return self.integer(name, default=default, minimum=0, maximum=MAX_TOKENS)


def _of_type(minimum: int) -> str:
    return "a positive integer" if minimum >= 1 else f"an integer of at least {minimum}"
