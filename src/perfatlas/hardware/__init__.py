"""Devices, nodes, fabrics and systems; independent of operators."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.hardware.description import cited_sources, describe, field_values
    from perfatlas.hardware.device import Device, Node, System
    from perfatlas.hardware.device_fields import DeviceKind
    from perfatlas.hardware.paths import HOST, PEER, SWITCH_PATHS, UNKNOWN_ROUTE, Route, ring_route
    from perfatlas.hardware.resolve import (
        alternatives, names_file, resolve_system, system_names, with_values,
    )
    from perfatlas.hardware.schema import (
        DEFAULT_KIND, DRAGONFLIES, FIELDS, KINDS, RAILS, register_kind, unit_of,
    )
    from perfatlas.hardware.slices import find_slice, is_pod, slice_chips, slice_of_pod, slice_shape
    from perfatlas.hardware.template import system_template
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
