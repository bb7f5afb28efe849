"""What an engine's documented recipes set for a model, where a question leaves it open."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import Array, Field, Named, Record, Text, Whole
from perfatlas.networks import resolve_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfatlas.networks import Network


@dataclass(frozen=True, kw_only=True)
class ModelRecipe:
    """What the recipes of an engine set for some models."""

    models: tuple[str, ...]  # The models, with all others of the same architecture
    source: str  # Where the recipes are
    # Chunks of layers per stage, by the pipeline stages
    vpp: Mapping[str, int] = field(default_factory=dict, hash=False)
    gradient_format: str = ""  # Format of accumulated gradients, "" for the engine's

    def covers(self, network: Network) -> bool:
        """Return whether the recipes are those of a model."""
        return any(resolve_model(name).network == network for name in self.models)


RECIPES: Final[Array[ModelRecipe]] = Array(
    of=Record[Any](
        fields={
            "models": Field(Array(of=Text(empty=False)), required=True),
            "ref": Field(Text(longest=1000), required=True, into="source"),
            "vpp": Field(Named(of=Whole(least=1))),
            "gradient_format": Field(Text(choices=("fp32", "bf16"))),
        },
        build=ModelRecipe,
    )
)
