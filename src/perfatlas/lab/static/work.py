"""What one instruction does, by its text: bytes it moves, pipe it occupies, FLOP of MMA."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfatlas.lab.static.kernel import Line

# Kinds of work. Loads and stores count bytes of a thread, tensor copies bytes of a block, others
# instructions.
GLOBAL_LOAD, GLOBAL_STORE = "global_load", "global_store"
COPY, TENSOR_COPY = "copy_to_shared", "tensor_copy"
SHARED_LOAD, SHARED_STORE = "shared_load", "shared_store"
FP32, CONVERSION, SPECIAL, BARRIER = "fp32", "conversion", "special", "barrier"
NARROW: Final = "narrow_load"  # bytes of a thread in loads of device memory below 8 bytes
NARROW_BYTES: Final = 8
WORD: Final = 4  # bytes of a register

_SASS: Final = (
    (re.compile(r"LDGSTS\b"), COPY),
    (re.compile(r"LDG?\b(?!\w)"), GLOBAL_LOAD),
    (re.compile(r"STG?\b"), GLOBAL_STORE),
    (re.compile(r"LDSM?\b"), SHARED_LOAD),
    (re.compile(r"STSM?\b"), SHARED_STORE),
    (
        re.compile(
            r"(?:FFMA2?|FMUL2?|FADD2?|FMNMX3?|FSETP?|FSEL|FCHK|H(?:FMA2|ADD2|MUL2|MNMX2|SETP2))\b"
        ),
        FP32,
    ),
    (re.compile(r"(?:F2FP?|I2FP?|F2IP?)\b"), CONVERSION),
    (re.compile(r"MUFU\b"), SPECIAL),
    (re.compile(r"BAR\b|SYNCS\.PHASECHK"), BARRIER),
)
_PTX: Final = (
    (re.compile(r"cp\.async\.c[ag]\."), COPY),
    (re.compile(r"ld\.(?:global|relaxed|volatile\.global)|ld\.(?=[uvsbf]\d)"), GLOBAL_LOAD),
    (re.compile(r"st\.global|st\.(?=[uvsbf]\d)"), GLOBAL_STORE),
    (re.compile(r"ld\.shared|ldmatrix"), SHARED_LOAD),
    (re.compile(r"st\.shared|stmatrix"), SHARED_STORE),
    (re.compile(r"(?:fma|add|sub|mul|max|min|neg|setp)\..*\b(?:b?f16|b?f16x2|f32|f32x2)\b"), FP32),
    (re.compile(r"cvt\..*(?:f16|f32|e4m3|e5m2|e2m1)"), CONVERSION),
    (re.compile(r"(?:ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh)\."), SPECIAL),
    (re.compile(r"bar(?:rier)?\.|mbarrier\.try_wait"), BARRIER),
)
_AMD: Final = (
    (re.compile(r"(?:global|buffer)_load_\w*lds|buffer_load\w*_lds"), COPY),
    (re.compile(r"(?:global|buffer|flat)_load"), GLOBAL_LOAD),
    (re.compile(r"(?:global|buffer|flat)_store"), GLOBAL_STORE),
    (re.compile(r"ds_(?:read|load)"), SHARED_LOAD),
    (re.compile(r"ds_(?:write|store)"), SHARED_STORE),
    (re.compile(r"v_cvt"), CONVERSION),
    (re.compile(r"v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_"), SPECIAL),
    (
        re.compile(r"v_(?:pk_)?(?:fma|fmac|mac|add|sub|mul|max3?|min3?|med3|cmp\w*)_\w*f(?:32|16)"),
        FP32,
    ),
    (re.compile(r"s_barrier"), BARRIER),
)
LOADS: Final = (GLOBAL_LOAD, COPY)
MEMORY: Final = (GLOBAL_LOAD, GLOBAL_STORE, COPY, SHARED_LOAD, SHARED_STORE)
_MATRICES: Final = re.compile(r"\.MT?88(?:\.(\d))?|m8n8\.x(\d)")
_SASS_BITS: Final = re.compile(r"\.(?:[US])?(8|16|64|128|256)(?=\.|$)")
_PTX_TYPE: Final = re.compile(r"(?:\.v(\d))?(?:\.v\d)?\.[bufs](\d+)$")
_AMD_WORDS: Final = re.compile(r"dword(?:x(\d))?|_b(\d+)|(ubyte|sbyte|byte)|(ushort|sshort|short)")
_HEX: Final = re.compile(r"0x[0-9a-f]+\s*$")
_EXPECTED: Final = re.compile(r"\]\s*,\s*(U?R\d+)")
_SHAPE: Final = re.compile(
    r"(?:\.|_|m)(\d+)(?:x|n)(\d+)(?:x|k)(\d+)|[HQIDO]MMA(?:\.\w+)*?\.(16|8)(8)(4|8|16|32|64)\b"
)


def sass_work(lines: Sequence[Line], place: int) -> tuple[str, int] | None:
    """Return the kind of work of an instruction of SASS, and how much of it."""
    if lines[place].operation == "SYNCS.ARRIVE.TRANS64":
        copied = copied_bytes(lines, place)
        return (TENSOR_COPY, copied) if copied else None
    return _work(lines[place], _SASS, _sass_bytes)


def ptx_work(lines: Sequence[Line], place: int) -> tuple[str, int] | None:
    """Return the kind of work of an instruction of PTX, and how much of it."""
    if lines[place].operation.startswith("mbarrier.arrive.expect_tx"):
        count = lines[place].operands.rpartition(",")[2].strip(" ;")
        return (TENSOR_COPY, int(count, 0)) if count[:1].isdigit() else None
    return _work(lines[place], _PTX, _ptx_bytes)


def amd_work(lines: Sequence[Line], place: int) -> tuple[str, int] | None:
    """Return the kind of work of an instruction of AMD GPUs, and how much of it."""
    return _work(lines[place], _AMD, _amd_bytes)


def _work(
    line: Line, table: Sequence[tuple[re.Pattern[str], str]], width: Callable[[Line], int]
) -> tuple[str, int] | None:
    kind = next((kind for pattern, kind in table if pattern.match(line.operation)), None)
    return None if kind is None else (kind, width(line) if kind in MEMORY else 1)


def _sass_bytes(line: Line) -> int:
    if matrices := _MATRICES.search(line.operation):
        return WORD * int(matrices[1] or 1)
    bits = _SASS_BITS.search(line.operation)
    return int(bits[1]) // 8 if bits else WORD


def _ptx_bytes(line: Line) -> int:
    if line.operation.startswith("cp.async"):
        sizes = re.findall(r",\s*(0x[0-9a-f]+|\d+)\b", line.operands)
        return int(sizes[0], 0) if sizes else WORD
    if matrices := _MATRICES.search(line.operation):
        return WORD * int(matrices[2] or 1)
    found = _PTX_TYPE.search(line.operation)
    return int(found[1] or 1) * int(found[2]) // 8 if found else WORD


def _amd_bytes(line: Line) -> int:
    found = _AMD_WORDS.search(line.operation)
    if found is None:
        return WORD
    words, bits, byte, short = found.groups()
    size = 1 if byte else 2 if short else int(bits) // 8 if bits else WORD * int(words or 1)
    return size * (2 if re.match(r"ds_(?:read|write|load|store)2", line.operation) else 1)


def copied_bytes(lines: Sequence[Line], at: int) -> int | None:
    """Return the bytes that a barrier of SASS waits for; None where they are computed.

    Args:
        lines: Instructions of a function.
        at: Place of a SYNCS.ARRIVE.TRANS64 among them.
    """
    register = _EXPECTED.search(lines[at].operands)
    if register is None:
        return None
    first = re.compile(rf"^\s*{register[1]}\b")
    for line in reversed(lines[:at]):
        if not first.match(line.operands):
            continue
        text = line.operands.strip(" ;")
        if line.operation.startswith(("IMAD.MOV", "MOV", "UMOV")) and (value := _HEX.search(text)):
            return int(value[0], 16)
        if line.operation.startswith("HFMA2"):  # two fp16 numbers, the upper one first
            upper, lower = (float(one) for one in text.split(",")[-2:])
            return int(struct.unpack("<I", struct.pack("<ee", lower, upper))[0])
        return None
    return None


def mma_shape(name: str) -> tuple[int, int, int] | None:
    """Return M, N and K of a matrix instruction; None if its name does not state them (tcgen05).

    Args:
        name: As compilers write it; one warp issues it, and 4 warps wgmma together.

    Example:
        >>> from perfatlas.lab.static.work import mma_shape
        >>> mma_shape("HMMA.16816.F32.BF16"), mma_shape("HGMMA.64x256x16.F32.BF16")
        ((16, 8, 16), (64, 256, 16))
        >>> mma_shape("v_mfma_f32_32x32x8_bf16"), mma_shape("UTCHMMA")
        ((32, 32, 8), None)
    """
    shape = _SHAPE.search(name)
    if shape is None:
        return None
    m, n, k = (int(size) for size in shape.groups() if size)
    return m, n, k
