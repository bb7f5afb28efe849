"""Catalogs in Python: `perfatlas.systems["h200_sxm"]` and the like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from perfatlas.quantities import InvalidSpecError, repr_for_error
from perfatlas.verbs.catalog.facts import CATALOGS

if TYPE_CHECKING:
    from typing import Self

SEPARATORS: Final = re.compile(r"[{},=\x00-\x1f]")  # of names with other values


class Entry(str):
    """The name of a catalog entry, to be passed wherever a name is asked, with its facts.

    Example:
        >>> import perfatlas
        >>> chip = perfatlas.systems["h200_sxm"].with_({"device.memory.bandwidth": "6TB/s"})
        >>> chip
        'h200_sxm{device.memory.bandwidth=6TB/s}'
        >>> fields = {"model": "meta-llama/Llama-3.1-8B", "batch": 64}
        >>> now, then = (perfatlas.estimate(system=name, **fields) for name in ("h200_sxm", chip))
        >>> then.results["tpot_s"] < now.results["tpot_s"]
        True
    """

    __slots__ = ("_catalog",)
    _catalog: str

    @classmethod
    def of(cls, catalog: str, name: str) -> Self:
        """Return an entry of a catalog.

        Args:
            catalog: systems or models.

        Raises:
            PerfatlasError: There is no such entry; the message names the nearest.
        """
        entry = cls(name)
        entry._catalog = catalog
        _ = entry.facts
        return entry

    @property
    def facts(self) -> dict[str, Any]:
        """What `perfatlas catalog` shows of it, in SI units."""
        return CATALOGS[self._catalog].facts(str(self))

    def with_(self, values: Mapping[str, object]) -> Self:
        """Return the entry with other values of fields, as `name{field=value}` writes them.

        Args:
            values: Values by field, with their units: `{"device.tdp": "500W"}`.

        Raises:
            PerfatlasError: The field does not exist, or the value is invalid.
        """
        for field, value in values.items():
            if not isinstance(value, (str, int, float)) or SEPARATORS.search(f"{field}{value}"):
                raise InvalidSpecError(
                    f"{field} = {repr_for_error(value)}: expected a number, or a text with its unit"
                    " such as '6TB/s'"
                )
        head, _, tail = self.partition("{")
        before = dict(part.split("=", 1) for part in tail.removesuffix("}").split(", ") if part)
        parts = [f"{field}={value}" for field, value in {**before, **values}.items()]
        return type(self).of(self._catalog, f"{head}{{{', '.join(parts)}}}" if parts else head)


class Entries(Mapping[str, Entry]):
    """A catalog: entries by name, including names with overrides.

    Args:
        catalog: systems or models.

    Example:
        >>> import perfatlas
        >>> "b200_sxm" in perfatlas.systems, perfatlas.models["gpt-oss-20b"].facts["layers"]
        (True, 24)
    """

    def __init__(self, catalog: str) -> None:
        """Read nothing yet."""
        self._catalog = catalog

    def __getitem__(self, name: str) -> Entry:
        """Return an entry."""
        return Entry.of(self._catalog, name)

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the catalog."""
        return (str(row["name"]) for row in CATALOGS[self._catalog].rows())

    def __len__(self) -> int:
        """Return the number of entries."""
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        """Return whether the catalog lists a name."""
        return name in set(self)

    def __repr__(self) -> str:
        """Return the names."""
        return f"perfatlas.{self._catalog}: {', '.join(self)}"


systems: Final = Entries("systems")
models: Final = Entries("models")
