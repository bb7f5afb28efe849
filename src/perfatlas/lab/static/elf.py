"""Kernels of ELF files: cubins, and the fat binaries of programs and libraries.

`.nv.info` holds attributes of all functions by symbol, `.nv.info.<kernel>` those of a kernel.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from perfatlas.files import load_arrow
from perfatlas.lab.static.kernel import Kernel
from perfatlas.quantities import InvalidSpecError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC: Final = b"\x7fELF"
CUDA: Final = 190  # EM_CUDA
AMDGPU: Final = 224
HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION: Final = struct.Struct("<IIQQQQIIQQ")
SYMBOL: Final = struct.Struct("<IBBHQQ")
NOBITS: Final = 8  # a section without contents in the file
FUNCTION: Final = 2  # type of a symbol
ENTRY: Final = 0x10  # STO_CUDA_ENTRY of `other`
ABI_OF_WIDE_TARGETS: Final = 8  # from this ABI version on the target has 16 bits, above the first 8
# Attributes of .nv.info, as nvdisasm and cuobjdump name them.
EIATTR_MAX_THREADS: Final = 0x05
EIATTR_REQNTID: Final = 0x10
EIATTR_FRAME_SIZE: Final = 0x11
EIATTR_CBANK_PARAM_SIZE: Final = 0x19
EIATTR_REGCOUNT: Final = 0x2F
MAX_NAME: Final = 65536  # bytes of the name of a symbol
SIZED: Final = 4  # format of an attribute whose value follows
# From sm_90 on the section of a kernel's shared memory includes what the system reserves.
RESERVED_SHARED_BYTES: Final = 1024
FIRST_WITH_RESERVED: Final = 90
FATBIN_MAGIC: Final = b"\x50\xed\x55\xba"
FATBIN_HEADER: Final = struct.Struct("<4sHHQ")
FATBIN_ENTRY: Final = struct.Struct("<HHIQIIHHIIIQQQ")
FATBIN_ELF: Final = 2  # kind of an entry
FATBIN_CODECS: Final = {0x2000: "lz4_raw", 0x8000: "zstd"}  # by flag of an entry
MAX_CUBIN_BYTES: Final = 1 << 28


@dataclass(frozen=True, kw_only=True)
class ElfFile:
    """An ELF file of 64 bits, little endian."""

    data: bytes
    machine: int
    sm: int  # compute capability without the point, such as 90; of CUDA alone
    sections: dict[str, tuple[int, int, int]]  # (kind, place, size) by name

    def contents(self, name: str) -> bytes:
        """Return the bytes of a section; none if it is absent or takes no space."""
        kind, index, size = self.sections.get(name, (NOBITS, 0, 0))
        return b"" if kind == NOBITS else self.data[index : index + size]


@contextmanager
def _refused_if_damaged(where: str) -> Iterator[None]:
    try:
        yield
    except (OverflowError, struct.error, IndexError, ValueError) as problem:
        raise InvalidSpecError(
            f"{printable(where)} is truncated or damaged: its tables point outside it, or it is not"
            " an ELF file of 64 bits; compile it again"
        ) from problem


def read_elf(data: bytes, where: str) -> ElfFile:
    """Return an ELF file as its sections."""
    with _refused_if_damaged(where):
        header = HEADER.unpack_from(data)
        identity, machine, table, flags = header[0], header[2], header[6], header[7]
        entry_size, count, names = header[11:14]
        rows = [SECTION.unpack_from(data, table + index * SECTION.size) for index in range(count)]
        outside = any(row[1] != NOBITS and row[4] + row[5] > len(data) for row in rows)
        if identity[:6] != MAGIC + b"\2\1" or (count and entry_size != SECTION.size) or outside:
            raise ValueError(where)
        text = data[rows[names][4] : rows[names][4] + rows[names][5]] if rows else b""
        sections = {_text_at(text, row[0]): (row[1], row[4], row[5]) for row in rows}
    wide = identity[8] >= ABI_OF_WIDE_TARGETS
    sm = flags >> 8 & 0xFFFF if wide else flags & 0xFF
    return ElfFile(data=data, machine=machine, sm=sm, sections=sections)


def _text_at(table: bytes, start: int) -> str:
    return table[start : table.index(0, start, start + MAX_NAME)].decode("utf-8", "replace")


def cubin_kernels(data: bytes, where: str) -> list[Kernel]:
    """Return the kernels of a cubin, without their instructions."""
    elf, shown = read_elf(data, where), printable(where)
    if elf.machine == AMDGPU:
        raise InvalidSpecError(
            f"{shown} is a code object for AMD GPUs: give the assembly that the compiler writes"
            " (.amdgcn, or `clang -S`)"
        )
    if elf.machine != CUDA:
        raise InvalidSpecError(
            f"{shown} is an ELF file for machine {elf.machine} without GPU code; cubins have"
            f" machine {CUDA}"
        )
    with _refused_if_damaged(where):
        kernels = list(_kernels(elf))
    if not kernels:
        raise InvalidSpecError(f"{shown} has no kernel: was it compiled with -dc? Link it first")
    return kernels


def _kernels(elf: ElfFile) -> Iterator[Kernel]:
    registers: dict[int, int] = {}
    frames: dict[int, int] = {}
    for attribute, value in _attributes(elf, ".nv.info"):
        if attribute in (EIATTR_REGCOUNT, EIATTR_FRAME_SIZE):
            symbol, number = struct.unpack_from("<II", value)
            (registers if attribute == EIATTR_REGCOUNT else frames)[symbol] = number
    for index, name in _entries(elf):
        threads = parameters = None
        for attribute, value in _attributes(elf, f".nv.info.{name}"):
            if attribute in (EIATTR_REQNTID, EIATTR_MAX_THREADS):
                x, y, z = struct.unpack_from("<III", value)
                threads = x * y * z
            elif attribute == EIATTR_CBANK_PARAM_SIZE:
                (parameters,) = struct.unpack_from("<H", value)
        *_, shared = elf.sections.get(f".nv.shared.{name}", (0,))
        reserved = RESERVED_SHARED_BYTES if elf.sm >= FIRST_WITH_RESERVED else 0
        yield Kernel(
            function=name,
            target=f"sm_{elf.sm}",
            registers=registers.get(index),
            stack_bytes=frames.get(index, 0),
            spills_bytes=frames.get(index, 0),
            shared_memory_bytes=max(shared - reserved, 0),
            threads=threads,
            parameter_bytes=parameters,
        )


def _entries(elf: ElfFile) -> Iterator[tuple[int, str]]:
    """Return (index of its symbol, name) of every kernel."""
    names, symbols = elf.contents(".strtab"), elf.contents(".symtab")
    for index in range(len(symbols) // SYMBOL.size):
        name, kind, other, *_ = SYMBOL.unpack_from(symbols, index * SYMBOL.size)
        if kind & 0xF == FUNCTION and other & ENTRY:
            yield index, _text_at(names, name)


def _attributes(elf: ElfFile, section: str) -> Iterator[tuple[int, bytes]]:
    """Return (attribute, value) of a section; short values are two bytes."""
    data, at = elf.contents(section), 0
    while at + 4 <= len(data):
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == SIZED:
            yield attribute, data[at : at + value]
            at += value
        else:
            yield attribute, data[at - 2 : at]


def embedded_cubins(data: bytes, where: str) -> list[bytes]:
    """Return the cubins of the fat binaries inside a file.

    Args:
        data: An object, library, program or .fatbin file.
    """
    cubins: list[bytes] = []
    at = data.find(FATBIN_MAGIC)
    while at >= 0 and at + FATBIN_HEADER.size <= len(data):
        _, _, header, size = FATBIN_HEADER.unpack_from(data, at)
        entry, end = at + header, min(at + header + size, len(data))
        while entry + FATBIN_ENTRY.size <= end:
            fields = FATBIN_ENTRY.unpack_from(data, entry)
            start, length = fields[2:4]
            if start < FATBIN_ENTRY.size:
                break
            if fields[0] == FATBIN_ELF:
                content = data[entry + start : entry + start + length]
                cubins.append(_expanded(content, fields, where))
            entry += start + length
        at = data.find(FATBIN_MAGIC, at + 4)
    if not cubins:
        raise InvalidSpecError(f"{printable(where)} holds PTX or nothing, no cubin")
    return cubins


def _expanded(stored: bytes, fields: tuple[int, ...], where: str) -> bytes:
    """Return a cubin of a fat binary, decompressed."""
    pa = load_arrow()
    codec = next((name for flag, name in FATBIN_CODECS.items() if fields[11] & flag), None)
    if codec is None:
        return stored
    packed, size = fields[4], fields[13]
    problem: object = f"{size:,} bytes"
    if size <= MAX_CUBIN_BYTES:
        try:
            return bytes(pa.decompress(stored[: packed or None], size, codec, asbytes=True))
        except (OSError, ValueError) as error:
            problem = error
    raise InvalidSpecError(
        f"{printable(where)} holds a compressed cubin that cannot be read ({problem}): extract it"
        " with `cuobjdump --extract-elf all FILE`"
    )
