"""Expressions over the keys of a config."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from perfatlas.networks.dimensions import MAX_SIZE
from perfatlas.quantities import Expression, InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfatlas.networks.hf_config.fields import Fields

NAME: Final = re.compile(r"[A-Za-z_][\w.]*(?!\()\b(?!\()")
# Sizes that stay names in the operators of a graph
SYMBOLS: Final = frozenset(
    (
        *("batch", "sequence_length", "source_length", "target_length", "frames", "patches"),
        *("queries", "total_length", "block_length", "steps", "refresh_interval", "tokens"),
    )
)
DEEPEST: Final = 4  # nested objects that expressions read
MOST: Final = 64  # numbers of a list that expressions read
LONGEST: Final = 200  # characters of a text that expressions read


def columns_of(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what expressions read of a config: numbers and texts, by dotted names.

    Of lists: `count`, `sum` and each number by its place, or how often each text occurs.
    """
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and name.count(".") < DEEPEST:
            yield from columns_of(value, f"{name}.")
        elif isinstance(value, list):
            yield f"{name}.count", len(value)
            numbers = [one for one in value if isinstance(one, int) and not isinstance(one, bool)]
            yield f"{name}.sum", sum(numbers)
            yield from ((f"{name}.at{i}", number) for i, number in enumerate(numbers[:MOST]))
            yield from ((f"{name}.last", number) for number in numbers[-1:])
            texts = Counter(one for one in value if isinstance(one, str))
            yield from ((f"{name}.{text}", count) for text, count in texts.most_common(MOST))
        elif isinstance(value, int | float) or (isinstance(value, str) and len(value) < LONGEST):
            yield name, value


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What the expressions of a row read."""

    fields: Fields
    columns: Mapping[str, Any]

    def value(self, text: object) -> int:
        """Return a size as a whole number."""
        expression = Expression(str(text))
        if missing := [name for name in expression.names if name not in self.columns]:
            raise InvalidSpecError(f"{self.fields.origin}: {missing[0]} is missing")
        found = expression.of(self.columns)
        found = found if isinstance(found, str | int) else float(found)
        if isinstance(found, str) or not 0 <= found <= MAX_SIZE * MAX_SIZE or found % 1:
            shown = ", ".join(
                f"{name} = {repr_for_error(self.columns[name])}" for name in expression.names
            )
            raise InvalidSpecError(
                f"{self.fields.origin}: {shown}: {expression.text} is"
                f" {repr_for_error(found)}, not a whole number of a network"
            )
        return int(found)

    def size(self, text: object) -> str:
        """Return a size as an expression over sizes of the network, with numbers for the rest."""
        named = str(text)
        return NAME.sub(
            lambda found: found[0] if found[0] in SYMBOLS else str(self.value(found[0])), named
        )
