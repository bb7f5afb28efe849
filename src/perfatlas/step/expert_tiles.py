"""Experts that an engine runs with default tiles, as it ships no tuned ones for their shape.

Shape legend: C candidates, O operators.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.files import shipped_table
from perfatlas.operators import GroupedGemm, with_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfatlas.engines import EngineProfile
    from perfatlas.machines import DeviceColumns
    from perfatlas.operators import Operator
    from perfatlas.pricing import PricedOperators

_DATA: Final = "data/expert_tiles.toml"


@cache
def _tiles() -> dict[str, Any]:
    found: dict[str, Any] = shipped_table(_DATA)
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))


def _has_default_tiles(profile: EngineProfile) -> bool:
    """Return whether a release runs experts without a tuned shape with tiles for many tokens."""
    data, own = _tiles(), _numbers(profile.version)
    last = _numbers(data["through"])
    return profile.name == data["engine"] and own[: len(last)] <= last


def _untuned_experts(
    operator: Operator, profile: EngineProfile, devices: DeviceColumns
) -> NDArray[np.bool_]:
    """Return where experts run with default tiles, with few tokens (C,).

    Source: data/expert_tiles.toml.
    """
    data, count = _tiles(), devices.index_C.size
    none_C = np.zeros(count, np.bool_)
    if not isinstance(operator, GroupedGemm) or operator.format != data["format"]:
        return none_C
    if not _has_default_tiles(profile):
        return none_C
    hopper = [device.architecture == data["architecture"] for device in devices.devices]
    few_C = operator.tokens <= data["untuned"]["tokens"]
    untuned_C: NDArray[np.bool_] = np.array(hopper)[devices.index_C] & few_C
    experts_C = np.broadcast_to(operator.experts / operator.ep, (count,))
    width_C = np.broadcast_to(operator.intermediate / operator.moe_tp, (count,))
    names = np.array([device.name for device in devices.devices])[devices.index_C]
    for tuned in data["tuned"]:
        if _numbers(tuned["release"]) > (*_numbers(profile.version), 0, 0)[:3]:
            continue
        for experts, width in tuned["shapes"]:
            same_C = (experts_C == experts) & (width_C == width)
            untuned_C &= ~(same_C & (names == tuned["device"]))
    return untuned_C


def with_untuned_experts(
    prices: PricedOperators,
    operators: Sequence[Operator],
    profile: EngineProfile,
    devices: DeviceColumns,
) -> PricedOperators:
    """Return prices whose upper limits cover default tiles where experts run with them.

    Args:
        operators: The operators (O).
    """
    if not _has_default_tiles(profile):
        return prices
    untuned_CO = np.zeros(prices.high_s_CO.shape, np.bool_)
    for index, operator in enumerate(operators):
        untuned_CO[:, index] = _untuned_experts(operator, profile, devices)
    if not untuned_CO.any():
        return prices
    wider_CO = np.where(untuned_CO, _tiles()["untuned"]["ratio"], 1.0)
    remark = _untuned_note(operators, profile, devices)
    notes = (*prices.notes, *([remark] if remark else []))
    return with_fields(prices, high_s_CO=prices.high_s_CO * wider_CO, notes=notes)


def _untuned_note(
    operators: Sequence[Operator], profile: EngineProfile, devices: DeviceColumns
) -> str:
    """Return the remark on experts of the first candidate without tuned tiles, "" for none."""
    for operator in operators:
        if isinstance(operator, GroupedGemm) and _untuned_experts(operator, profile, devices)[0]:
            experts, width = (
                float(np.ravel(column)[0])
                for column in (
                    operator.experts / operator.ep,
                    operator.intermediate / operator.moe_tp,
                )
            )
            return (
                f"{profile.name} {profile.version} ships no tuned tiles for {experts:g}"
                f" block-scaled fp8 experts of width {width:g} on"
                f" {devices.devices[devices.index_C[0]].name} and runs a default of 64 rows:"
                f" published ratios reach {_tiles()['untuned']['ratio']:g}, by which the upper"
                " limit of their time is wider"
            )
    return ""
