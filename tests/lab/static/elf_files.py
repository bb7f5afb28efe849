"""Cubins and fat binaries built by hand: as few sections as a reader needs."""

from __future__ import annotations

import struct
from typing import NamedTuple

NOBITS = 8


class Built(NamedTuple):
    """A section to build."""

    name: str
    data: bytes = b""
    kind: int = 1
    size: int | None = None


def elf(sections: list[Built], *, machine: int = 190, flags: int = 0, abi: int = 8) -> bytes:
    """Return an ELF file of 64 bits."""
    every = [Built("", kind=0), *sections, Built(".shstrtab", kind=3)]
    names = b"".join(one.name.encode() + b"\0" for one in every)
    every[-1] = every[-1]._replace(data=names)
    body, rows, name_at = b"", b"", 0
    for one in every:
        size = len(one.data) if one.size is None else one.size
        place = 64 + len(body)
        rows += struct.pack("<IIQQQQIIQQ", name_at, one.kind, 0, 0, place, size, 0, 0, 1, 0)
        body += one.data
        name_at += len(one.name) + 1
    identity = b"\x7fELF\x02\x01\x01\x41" + bytes([abi]) + bytes(7)
    counts = (64, 56, 0, 64, len(every), len(every) - 1)
    table = 64 + len(body)
    return struct.pack(
        "<16sHHIQQQIHHHHHH", identity, 2, machine, 1, 0, 0, table, flags, *counts
    ) + (body + rows)


def attribute(number: int, value: bytes) -> bytes:
    """Return an attribute of .nv.info whose value has a size."""
    return struct.pack("<BBH", 4, number, len(value)) + value


def short_attribute(number: int, value: int) -> bytes:
    return struct.pack("<BBH", 3, number, value)


def one_kernel(*, flags: int = 90 << 8, abi: int = 8, shared: int = 1024 + 256) -> bytes:
    """Return a cubin with the kernel `k`: 168 registers, a stack of 48 bytes, 384 threads."""
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0x10, 4, 0, 128)
    common = attribute(0x2F, struct.pack("<II", 1, 168)) + attribute(
        0x11, struct.pack("<II", 1, 48)
    )
    own = short_attribute(0x19, 40) + attribute(0x10, struct.pack("<III", 128, 3, 1))
    return elf(
        [
            Built(".strtab", b"\0k\0", kind=3),
            Built(".symtab", symbols, kind=2),
            Built(".nv.info", common, kind=0x70000000),
            Built(".nv.info.k", own, kind=0x70000000),
            Built(".nv.shared.k", kind=NOBITS, size=shared),
        ],
        flags=flags,
        abi=abi,
    )


def fat_binary(cubin: bytes, *, flags: int = 0, packed: int = 0, size: int = 0) -> bytes:
    """Return a fat binary with a PTX entry and a cubin."""
    entries = _entry(1, b"// ptx", 0, 0, 0) + _entry(2, cubin, flags, packed, size)
    return struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, len(entries)) + entries


def _entry(kind: int, data: bytes, flags: int, packed: int, size: int) -> bytes:
    numbers = (kind, 0x101, 64, len(data), packed, 0, 0, 1, 90, 0, 0, flags, 0, size)
    return struct.pack("<HHIQIIHHIIIQQQ", *numbers) + data
