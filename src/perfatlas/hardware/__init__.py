"""Devices, nodes, fabrics and systems; independent of operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.hardware.citations import cited_sources as cited_sources
    from perfatlas.hardware.description import describe as describe, field_values as field_values
    from perfatlas.hardware.device import Device as Device, Node as Node, System as System
    from perfatlas.hardware.device_fields import DeviceKind as DeviceKind
    from perfatlas.hardware.paths import (
        HOST as HOST,
        PEER as PEER,
        SWITCH_PATHS as SWITCH_PATHS,
        UNKNOWN_ROUTE as UNKNOWN_ROUTE,
        Route as Route,
        ring_route as ring_route,
    )
    from perfatlas.hardware.resolve import (
        names_file as names_file,
        resolve_system as resolve_system,
        system_names as system_names,
        with_values as with_values,
    )
    from perfatlas.hardware.schema import (
        DEFAULT_KIND as DEFAULT_KIND,
        FIELDS as FIELDS,
        KINDS as KINDS,
        register_kind as register_kind,
        unit_of as unit_of,
    )
    from perfatlas.hardware.similar_devices import alternatives as alternatives
    from perfatlas.hardware.slices import (
        find_slice as find_slice,
        is_pod as is_pod,
        slice_chips as slice_chips,
        slice_of_pod as slice_of_pod,
        slice_shape as slice_shape,
    )
    from perfatlas.hardware.template import system_template as system_template
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
