"""Kernels of cubins and fat binaries, from files built by hand and by a compiler."""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from perfatlas.lab.static.elf import cubin_kernels, embedded_cubins, read_elf
from perfatlas.quantities import InvalidSpecError
from tests.lab.static.elf_files import Built, elf, fat_binary, one_kernel

HERE = Path(__file__).parent
CUBIN = HERE / "fixture.sm_90.cubin"


def test_a_kernel_built_by_hand() -> None:
    (kernel,) = cubin_kernels(one_kernel(), "k.cubin")
    assert (kernel.function, kernel.target, kernel.registers) == ("k", "sm_90", 168)
    assert (kernel.stack_bytes, kernel.threads, kernel.parameter_bytes) == (48, 384, 40)
    assert kernel.shared_memory_bytes == 256  # 1,280 less the 1,024 that the system reserves


def test_targets_of_old_and_new_files() -> None:
    old = one_kernel(flags=80 | 80 << 16, abi=7, shared=512)
    (kernel,) = cubin_kernels(old, "k")
    assert (kernel.target, kernel.shared_memory_bytes) == ("sm_80", 512)
    assert cubin_kernels(one_kernel(flags=0x9000000 | 120 << 8 | 2), "k")[0].target == "sm_120"


def test_kernels_of_a_compiler() -> None:
    """Figures of `ptxas -v`: 30 registers, 512 bytes of shared memory; 40, a stack of 128."""
    local, wgmma = cubin_kernels(CUBIN.read_bytes(), CUBIN.name)
    assert (wgmma.function, wgmma.registers, wgmma.stack_bytes) == ("wgmma", 30, 0)
    assert (wgmma.shared_memory_bytes, wgmma.threads, wgmma.parameter_bytes) == (512, 128, 20)
    assert (local.function, local.registers, local.stack_bytes) == ("local", 40, 128)
    assert local.threads is None


@pytest.mark.parametrize(("codec", "flag"), [("lz4_raw", 0x2000), ("zstd", 0x8000)])
def test_fat_binaries_compressed_or_not(codec: str, flag: int) -> None:
    cubin = one_kernel()
    packed = bytes(pa.compress(cubin, codec, asbytes=True))
    stored = fat_binary(packed, flags=flag, packed=len(packed), size=len(cubin))
    assert embedded_cubins(b"host code" + fat_binary(cubin) + stored, "lib") == [cubin, cubin]


def test_a_compressed_cubin_that_is_damaged_is_refused() -> None:
    stored = fat_binary(b"nonsense", flags=0x8000, packed=8, size=4096)
    with pytest.raises(InvalidSpecError, match="cuobjdump --extract-elf"):
        embedded_cubins(stored, "lib")
    huge = fat_binary(b"nonsense", flags=0x2000, packed=8, size=1 << 60)
    with pytest.raises(InvalidSpecError, match="cannot be read"):
        embedded_cubins(huge, "lib")
    with pytest.raises(InvalidSpecError, match="no cubin"):
        embedded_cubins(fat_binary(b"", flags=0)[:90], "lib")


def test_sizes_outside_the_file_are_refused() -> None:
    far = elf([Built(".text.k", b"\0" * 8, size=1 << 60)])
    with pytest.raises(InvalidSpecError, match="truncated or damaged"):
        read_elf(far, "far.cubin")
    cut = bytearray(one_kernel())
    struct.pack_into("<Q", cut, 40, 1 << 62)  # the table of sections
    with pytest.raises(InvalidSpecError, match="truncated or damaged"):
        read_elf(bytes(cut), "cut.cubin")


def test_other_machines_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="machine 62"):
        cubin_kernels(elf([], machine=62), "program")
    with pytest.raises(InvalidSpecError, match="AMD GPUs"):
        cubin_kernels(elf([], machine=224), "k.hsaco")
    with pytest.raises(InvalidSpecError, match="no kernel"):
        cubin_kernels(elf([]), "empty.cubin")


@given(st.data())
def test_a_damaged_cubin_gives_kernels_or_an_error(data: st.DataObject) -> None:
    content = bytearray(one_kernel())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(content)))
    with contextlib.suppress(InvalidSpecError):
        assert cubin_kernels(bytes(content[:end]), "k.cubin")
