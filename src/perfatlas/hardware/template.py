"""A commented hardware file to start from, with every field of the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfatlas.files import Flag, Number, Text, format_toml
from perfatlas.hardware.description import field_values
from perfatlas.hardware.resolve import resolve_system
from perfatlas.hardware.schema import FIELDS, unit_of
from perfatlas.quantities import format_quantity

if TYPE_CHECKING:
    from perfatlas.files import Value

DIGITS: Final = 12  # of a value of the base
# Fields that define a chip; peaks follow from them where a base is given.
PRIMARY: Final = {
    "device.sm_count": "streaming multiprocessors (SMs) or compute units",
    "device.flop_per_clock_per_sm": "dense bf16 FLOP per clock and SM; a multiply-add is 2",
    "device.clock.peak": "clock at which the dense peaks are stated",
    "device.clock.sustained": "clock at which kernels run",
    "device.clock.boost": "highest clock",
    "device.exponentials_per_sm_clock": "exponentials per clock and SM",
    "device.memory.capacity": "memory that a process can allocate",
    "device.memory.bandwidth": "peak memory bandwidth: stacks x rate of one stack",
    "device.l2": "last-level cache",
    "device.shared_memory": "shared memory of one SM",
    "device.scale_up.domain_size": "devices of a scale-up domain, such as one NVLink domain",
    "device.scale_up.links": "scale-up links of one device",
    "device.scale_up.bandwidth": "bandwidth of all scale-up links, per direction",
    "device.tdp": "power limit of one device",
}
FURTHER: Final = {
    "device.vendor": "vendor",
    "device.architecture": "family of instructions and kernels",
    "device.year": "year of introduction",
    "device.calibration_relative": "measured system whose kernels this device borrows",
    "device.packages": "packages of one device",
    "device.dies": "compute dies of one device",
    **{
        f"device.peak.{name}": f"dense {name} peak"
        for name in ("bf16", "fp16", "tf32", "fp32", "fp64", "fp8", "fp4", "int8")
    },
    "device.scale_up.latency": "latency of one hop inside the scale-up domain",
    "device.scale_up.in_network_reduction": "whether switches of the domain reduce",
    "device.scale_up.kind": "kind of scale-up link",
    "device.host_link.bandwidth": "bandwidth to the host, per direction",
    "device.overhead_ratio": "fixed costs of kernels relative to those of the borrowed ones",
    "device.idle": "power of an idle device",
    "node": "name of a node of the catalog; instead of a name, set the fields of the table node",
    "node.devices": "devices of a node",
    "node.nics": "NICs of a node in the network between nodes",
    "node.nic_bandwidth": "bandwidth of one NIC, per direction",
    "node.topology": "board of the catalog, or output of nvidia-smi topo -m",
    "node.peer_access": "whether devices access each other's memory over PCIe",
    "fabric": "name of a fabric of the catalog; instead of a name, set the fields of its table",
    "fabric.kind": "kind of network between nodes",
    "fabric.topology": "topology between nodes",
    "fabric.latency": "latency of one message between NICs",
    "fabric.oversubscription": "bandwidth of leaf ports relative to their uplinks",
    "fabric.leaf_nodes": "nodes of one leaf switch",
    "fabric.in_network_reduction": "whether switches between nodes reduce",
}
HEADER: Final = """\
# A hardware file of perfatlas; --system takes its path. Lines that start with "#" are not read:
# remove the "#" to set a field. Each field has its meaning, unit and range, and what it changes.
# Numbers have the units of datasheets: "4.8 TB/s", "228 KiB". Peaks are dense; bandwidth of links
# is per device and direction. A value may state its own source:
#   device.tdp = { value = "700 W", kind = "datasheet", ref = "name of the document" }
# with kind datasheet, measured, derived or assumed. The bf16 peak must equal device.sm_count x
# device.clock.peak x device.flop_per_clock_per_sm within 3%.
"""
BASED: Final = """\
# All fields are those of the base until they are set here. Peaks that are not set follow the SMs,
# the peak clock and the FLOP per clock.
"""
SOURCE: Final = {"kind": "assumed", "ref": "name the document that the values come from"}


def system_template(base: str | None = None) -> str:
    r"""Return the text of a hardware file with all fields as comments, primary fields first.

    Args:
        base: System whose values the file starts from; None for a file without values.

    Raises:
        InvalidSpecError: There is no such system.

    Example:
        >>> from perfatlas.hardware import system_template
        >>> "# device.sm_count = 132\n" in system_template("h200_sxm")
        True
    """
    system = None if base is None else resolve_system(base)
    values: dict[str, Value] = {} if system is None else field_values(system)
    head = {} if system is None else {"base": system.name}
    parts = [HEADER, *([BASED] if head else []), "\n"]
    parts += [format_toml(head), _inline_source()]
    for title, meanings in (("Primary fields", PRIMARY), ("Further fields", FURTHER)):
        parts.append(f"\n# ---- {title} ----\n")
        parts += [_field(path, meaning, values.get(path)) for path, meaning in meanings.items()]
    return "".join(parts)


def _inline_source() -> str:
    kind, ref = SOURCE["kind"], SOURCE["ref"]
    return f'source = {{ kind = "{kind}", ref = "{ref}" }}\n'


def _field(path: str, meaning: str, value: Value | None) -> str:
    """Return the comments of a field, and its line."""
    field = FIELDS[path]
    need = "required without a base" if field.required and field.default is None else "optional"
    effect = f"changes {', '.join(field.read_by)}" if field.read_by else "descriptive"
    rule = "; ".join((*_bounds(path), need))
    return f"\n# {meaning}\n# {rule}\n# {effect}\n# {path} = {_value_text(path, value)}\n"


def _bounds(path: str) -> list[str]:
    match FIELDS[path].reader:
        case Number(least=least, most=most):
            unit = unit_of(path)
            return [f"[{unit or 'number'}] {least:g} to {most:g}"]
        case Flag():
            return ["true or false"]
        case Text(choices=choices) if choices:
            return [", ".join(choices)]
    return []


def _value_text(path: str, value: Value | None) -> str:
    """Return a value as TOML, "..." without one."""
    if value is None or value == "":
        return "..."
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value if path == "device.year" else f'"{value}"'
    unit = unit_of(path)
    return f'"{format_quantity(value, unit, digits=DIGITS)}"' if unit else f"{value:.12g}"
