from __future__ import annotations

import pytest

from perfatlas.hardware import alternatives, resolve_system, system_names


@pytest.mark.parametrize("name", ["h200_sxm", "mi300x", "tpu_v5e"])
def test_the_same_vendor_comes_first_and_smaller_before_larger(name: str) -> None:
    device = resolve_system(name).device
    others = [resolve_system(other).device for other in alternatives(device)]
    kin = [other.vendor == device.vendor for other in others]
    assert kin == sorted(kin, reverse=True)
    sizes = [other.memory_bytes for other in others if other.vendor == device.vendor]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("name", ["h200_sxm", "tpu_v5e", "groq_tsp_v1"])
def test_alternatives_are_the_other_machines_of_the_same_kind(name: str) -> None:
    shipping = {name: resolve_system(name).device for name in system_names()}
    kinds = {
        other: device.kind
        for other, device in shipping.items()
        if device.sources["device.year"].kind != "announced"
    }
    same_kind = {other for other, kind in kinds.items() if kind == kinds[name]}
    assert set(alternatives(resolve_system(name).device)) == same_kind - {"cpu", name}
