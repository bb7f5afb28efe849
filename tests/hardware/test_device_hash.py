from __future__ import annotations

from dataclasses import replace

from perfatlas.energy import board_energy
from perfatlas.hardware import resolve_system


def test_changed_devices_have_results_of_their_own() -> None:
    device = resolve_system("h200_sxm").device
    less = resolve_system("h200_sxm{device.tdp=600W}").device
    assert hash(device) == hash(replace(device)) != hash(less)
    assert board_energy(device) is board_energy(replace(device))
    assert (board_energy(less).cap_w, board_energy(device).cap_w) == (600.0, 700.0)
