from __future__ import annotations

import pytest

from perfatlas.hardware import alternatives, resolve_system, system_names

CPUS = ("cpu", "xeon_8480", "epyc_9654", "grace_cpu")


@pytest.mark.parametrize("name", ["h200_sxm", "mi300x", "tpu_v5e"])
def test_the_same_vendor_comes_first_and_smaller_before_larger(name: str) -> None:
    device = resolve_system(name).device
    others = [resolve_system(other).device for other in alternatives(device)]
    kin = [other.vendor == device.vendor for other in others]
    assert kin == sorted(kin, reverse=True)
    sizes = [other.memory_bytes for other in others if other.vendor == device.vendor]
    assert sizes == sorted(sizes)


def test_alternatives_exclude_cpus_and_the_device_itself() -> None:
    others = alternatives(resolve_system("h200_sxm").device)
    assert set(system_names()) - set(others) == {*CPUS, "h200_sxm"}
