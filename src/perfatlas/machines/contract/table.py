"""Machines by kind of device: folders of `machines`, and those that are registered."""

from __future__ import annotations

import importlib
from importlib import resources
from typing import TYPE_CHECKING, Final

from perfatlas.quantities import InvalidSpecError, UnsupportedError

if TYPE_CHECKING:
    from perfatlas.machines.contract.row import Machine

_PACKAGE: Final = "perfatlas.machines"
_LOADED: Final[dict[str, Machine]] = {}


def register(machine: Machine) -> None:
    """Register a machine that is not a folder of `machines`.

    Args:
        machine: The machine; `hardware.register_kind` registers the schema of its devices.

    Raises:
        InvalidSpecError: A machine of this name exists.
    """
    if machine.name in _LOADED or _has_folder(machine.name):
        raise InvalidSpecError(f"machine {machine.name} already exists; rename it")
    _LOADED[machine.name] = machine


def find_machine(kind: str) -> Machine:
    """Return the machine of a kind of device, whose modules are imported when it is first used.

    Args:
        kind: Value of `device.kind`.

    Raises:
        UnsupportedError: No machine prices devices of this kind.
    """
    if kind not in _LOADED:
        if not _has_folder(kind):
            raise UnsupportedError(
                f"no machine prices devices of kind {kind}: a machine is a folder of {_PACKAGE}"
            )
        _LOADED[kind] = importlib.import_module(f"{_PACKAGE}.{kind}.machine").MACHINE
    return _LOADED[kind]


def _has_folder(name: str) -> bool:
    return resources.files(_PACKAGE).joinpath(name, "machine.py").is_file()
