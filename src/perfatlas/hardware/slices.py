"""Slices of TPU pods: chips and topology from names such as v5p-128, which counts TensorCores."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from math import gcd, prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfatlas.files import shipped_table
from perfatlas.quantities import InvalidSpecError, repr_for_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfatlas.hardware.device import System

SLICES: Final = "data/hardware/slices.toml"
DOMAIN: Final = "device.scale_up.domain_size"
CUBE: Final = 4  # side of the cubes of which slices of three axes consist
_NAME: Final = re.compile(r"(?:tpu[-_])?([a-z0-9]+)-(\d{1,6}|\d{1,3}(?:x\d{1,3}){1,2})")


class Slice(NamedTuple):
    """A slice of a pod."""

    name: str  # As users name it, such as "v5p-128"
    system: str  # Catalog name of its chips
    chips: int  # Chips
    note: str  # What the number of the name counts, and the topology
    ref: str  # Where its topologies are published


def find_slice(name: str) -> Slice | None:
    """Return the slice that a name states, None for other names.

    Args:
        name: As a user wrote it.

    Raises:
        InvalidSpecError: The generation has no such slice, or does not name slices by a number.

    Example:
        >>> from perfatlas.hardware.slices import find_slice
        >>> find_slice("v5p-128").note
        'v5p-128 is 64 chips (128 TensorCores) of tpu_v5p in a topology of 4x4x4'
        >>> find_slice("v5e-16").chips
        16
    """
    text = name.strip().casefold()
    matched = _NAME.fullmatch(text)
    pair = next(
        (
            (system, row)
            for system, row in shipped_table(SLICES).items()
            if matched and matched[1] in row["names"]
        ),
        None,
    )
    if matched is None or pair is None:
        return None
    system, row = pair
    size, cores = matched[2], int(row["cores"])
    if "x" not in size and not cores:
        example = f"{matched[1]}-{row['topologies'][5]}"
        raise InvalidSpecError(
            f"system {repr_for_error(name)}: slices of {system} are named by their topology, as"
            f" {example}; one chip has two devices, so that a number could count either"
        )
    shape = tuple(map(int, size.split("x"))) if "x" in size else ()
    chips = prod(shape) if shape else int(size) // cores
    topology = slice_shape(max(chips, 1), len(row["topologies"][0].split("x")))
    counted = chips > 0 and (bool(shape) or int(size) % cores == 0)
    if not counted or not _exists(topology, row) or (shape and tuple(sorted(shape)) != topology):
        names = ", ".join(_names(matched[1], row))
        raise InvalidSpecError(
            f"system {repr_for_error(name)}: {system} has no such slice; it has {names}"
        )
    cores_note = f" ({chips * cores} TensorCores)" if cores > 1 else ""
    words = "x".join(map(str, topology))
    note = f"{text} is {chips} chips{cores_note} of {system} in a topology of {words}"
    return Slice(text, system, chips, note, str(row["ref"]))


def slice_chips(system: object) -> int | None:
    """Return the chips of the slice that a system names, None for other systems.

    Args:
        system: As a user wrote it, with changes in braces or without.

    Example:
        >>> from perfatlas.hardware import slice_chips
        >>> slice_chips("v5p-128{device.tdp=300W}"), slice_chips("tpu_v5p")
        (64, None)
    """
    pod_slice = find_slice(system.partition("{")[0]) if isinstance(system, str) else None
    return pod_slice and pod_slice.chips


def is_pod(system: System) -> bool:
    """Return whether a system is a pod of a generation, without the name or size of a slice."""
    named = slice_chips(system.name) or DOMAIN in system.overridden
    return system.device.name in shipped_table(SLICES) and not named


def slice_of_pod(system: System, chips: int) -> System:
    """Return the slice of a pod that a deployment is; other systems stay as they are.

    Args:
        chips: Chips of the deployment; those of more than a pod are several.

    Source: cloud.google.com/tpu/docs/types-topologies: the default topology of a number of chips
        is the most similar to a cube.

    Example:
        >>> from perfatlas.hardware import resolve_system, slice_of_pod
        >>> pod, named = resolve_system("tpu_v5p"), resolve_system("v5p-128")
        >>> slice_of_pod(pod, 64).device.scale_up == named.device.scale_up
        True
    """
    scale_up = system.device.scale_up
    if chips >= scale_up.domain_size or not is_pod(system):
        return system
    scale_up = replace(scale_up, domain_size=chips)
    return replace(system, device=replace(system.device, scale_up=scale_up))


@cache
def slice_shape(chips: int, axes: int) -> tuple[int, ...]:
    """Return the lengths of the axes of a slice, ascending: those nearest to each other.

    Slices of three axes with whole cubes of 4x4x4 consist of these.

    Args:
        chips: Chips of the slice, at least 1.
        axes: Axes of the torus.

    Example:
        >>> from perfatlas.hardware.slices import slice_shape
        >>> slice_shape(128, 2), slice_shape(256, 3), slice_shape(8960, 3)
        ((8, 16), (4, 8, 8), (16, 20, 28))
    """
    cube = CUBE**axes
    if axes > 2 and chips % cube == 0:
        return tuple(CUBE * number for number in _balanced(chips // cube, axes))
    return _balanced(chips, axes)


def _balanced(number: int, axes: int) -> tuple[int, ...]:
    """Return as many factors of a number as there are axes, ascending, the largest least."""
    if axes == 1:
        return (number,)
    every = (
        tuple(sorted((divisor, *_balanced(number // divisor, axes - 1))))
        for divisor in _divisors(number)
    )
    return min(every, key=lambda shape: shape[::-1])


def _divisors(number: int) -> Iterator[int]:
    """Yield the divisors of a number up to its square root."""
    yield from (index for index in range(1, int(number**0.5) + 1) if number % index == 0)


def _exists(shape: tuple[int, ...], row: Mapping[str, Any]) -> bool:
    """Return whether a slice of this shape exists."""
    listed = [tuple(sorted(map(int, topology.split("x")))) for topology in row["topologies"]]
    cubes = gcd(*shape) % CUBE == 0 and len(shape) > 2
    return shape in listed or (cubes and prod(shape) <= max(map(prod, listed)))


def _names(prefix: str, row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the listed slices of a generation."""
    for topology in row["topologies"]:
        chips = prod(map(int, topology.split("x")))
        yield f"{prefix}-{chips * row['cores'] if row['cores'] else topology}"
