"""The vocabulary of how replicas are operated: who gets which request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, Field

from perfatlas.quantities import InvalidSpecError
from perfatlas.serving import Affinity

if TYPE_CHECKING:
    from collections.abc import Iterable

Routing = Literal["round_robin", "least_loaded", "random", "prefix_aware"]
_AFFINITY: Final = ("cache_threshold", "balance_abs_threshold", "balance_rel_threshold")


class Operation(BaseModel):
    """How replicas share requests. None means "as the router does by default"."""

    routing: Routing = "round_robin"
    cache_threshold: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    balance_abs_threshold: Annotated[int, Field(ge=0, le=10**9)] | None = None
    balance_rel_threshold: Annotated[float, Field(ge=1.0, le=1e9)] | None = None

    def affinity(self) -> Affinity:
        """Return when the router follows a prefix.

        Raises:
            InvalidSpecError: A threshold of another routing is given.
        """
        if self.routing != "prefix_aware":
            self._refuse_given(_AFFINITY, "routing = prefix_aware")
        given = {
            name: getattr(self, asked)
            for name, asked in zip(Affinity._fields, _AFFINITY, strict=True)
            if getattr(self, asked) is not None
        }
        return Affinity(**given)

    def _refuse_given(self, names: Iterable[str], of: str) -> None:
        """Refuse fields that belong to something that is not asked for."""
        for name in names:
            value = getattr(self, name)
            if value is not None:
                raise InvalidSpecError(f"{name} = {value} is that of {of}; leave it out or set that")

    def said(self) -> list[str]:
        """Return what is assumed of the router, for the evidence; nothing for the plain ones."""
        if self.routing != "prefix_aware":
            return []
        share, apart, ratio = self.affinity()
        return [
            f"the router follows prefixes as sglang-router 0.3.2 (cache_aware): to the replica that"
            f" got the longest known beginning where that is over {share:.0%} of the prompt, else"
            f" to the least loaded, and there always where loads differ by over {apart} requests"
            f" and {ratio:g} times"
        ]
