"""Networks with the same dimensions under several names, which leave a fit together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.networks import resolve_model

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence


def twin_groups(names: Sequence[str], dimensions: Sequence[Hashable]) -> list[str]:
    """Return the group of each row, called by its first name.

    Names with rows of the same dimensions are one group, and so are those that a third one joins.

    Args:
        names: Name of the network of each row.
        dimensions: What rows share whose measurements tell each other's.

    Example:
        >>> from validation.runs.twins import twin_groups
        >>> twin_groups(["a", "b", "c", "c"], [(1, 2), (3, 4), (3, 4), (5, 6)])
        ['a', 'b', 'b', 'b']
    """
    group = {name: name for name in names}
    first: dict[Hashable, str] = {}
    for name, own in zip(names, dimensions, strict=True):
        joined, kept = group[name], group[first.setdefault(own, name)]
        group = {key: kept if of == joined else of for key, of in group.items()}
    return [group[name] for name in names]


def layers_of(model: str) -> Hashable:
    """Return the dimensions of all layers of a model, without vocabulary and windows.

    Args:
        model: Id or path, as `estimate` takes it.
    """
    network = resolve_model(model).network.without_windows("")
    return network.hidden_size, network.layers
