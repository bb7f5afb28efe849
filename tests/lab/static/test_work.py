"""Bytes, pipes and shapes of instructions, worked by hand from their text."""

from __future__ import annotations

import pytest

from perfatlas.lab.static.kernel import Line
from perfatlas.lab.static.work import amd_work, mma_shape, ptx_work, sass_work


def _line(text: str) -> list[Line]:
    operation, _, operands = text.partition(" ")
    return [Line(conditional=False, operation=operation, operands=operands, labels=())]


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ("LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]", "copy_to_shared", 16),
        ("LDG.E R4, desc[UR4][R2.64]", "global_load", 4),
        ("LDG.E.U16 R4, desc[UR4][R2.64]", "global_load", 2),
        ("STG.E.64 desc[UR4][R2.64], R4", "global_store", 8),
        ("LDSM.16.M88.4 R4, [R1]", "shared_load", 16),
        ("LDS.U8 R4, [R1]", "shared_load", 1),
        ("STS.128 [R1], R4", "shared_store", 16),
        ("F2FP.BF16.F32.PACK_AB R1, R2, R3", "conversion", 1),
        ("MUFU.EX2 R1, R2", "special", 1),
        ("FFMA R1, R2, R3, R4", "fp32", 1),
    ],
)
def test_sass(text: str, kind: str, amount: int) -> None:
    assert sass_work(_line(text), 0) == (kind, amount)


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ("cp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;", "copy_to_shared", 16),
        ("ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];", "global_load", 16),
        ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%r2];", "shared_load", 16),
        ("st.shared.b16 [%r1], %rs1;", "shared_store", 2),
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r78], 49152;", "tensor_copy", 49152),
        ("cvt.rn.bf16x2.f32 %r1, %f1, %f2;", "conversion", 1),
        ("fma.rn.f32 %f1, %f2, %f3, %f4;", "fp32", 1),
    ],
)
def test_ptx(text: str, kind: str, amount: int) -> None:
    assert ptx_work(_line(text), 0) == (kind, amount)


@pytest.mark.parametrize(
    ("text", "kind", "amount"),
    [
        ("global_load_dwordx4 v[0:3], v4, s[0:1]", "global_load", 16),
        ("buffer_load_ushort v0, v1, s[0:3], 0 offen", "global_load", 2),
        ("global_load_lds_dwordx4 v1, s[0:1]", "copy_to_shared", 16),
        ("ds_read2st64_b64 v[0:3], v4", "shared_load", 16),
        ("ds_write_b128 v0, v[1:4]", "shared_store", 16),
        ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", "fp32", 1),
        ("v_exp_f32_e32 v0, v1", "special", 1),
    ],
)
def test_amd(text: str, kind: str, amount: int) -> None:
    assert amd_work(_line(text), 0) == (kind, amount)


def test_bytes_of_tensor_copies_are_those_the_barrier_waits_for() -> None:
    # fp16 -2.0 is 0xc000; the upper half is 0.0
    for constant in ("MOV R8, 0xc000", "HFMA2 R8, -RZ, RZ, 0, -2"):
        lines = [*_line(constant), *_line("SYNCS.ARRIVE.TRANS64 RZ, [UR8+0x34000], R8")]
        assert sass_work(lines, 1) == ("tensor_copy", 49152)
    computed = [*_line("IADD3 R8, R1, R2, RZ"), *_line("SYNCS.ARRIVE.TRANS64 RZ, [UR8], R8")]
    assert sass_work(computed, 1) is None


def test_shapes_of_matrix_instructions() -> None:
    assert mma_shape("QGMMA.64x128x32.F32.E4M3.E4M3") == (64, 128, 32)
    assert mma_shape("IMMA.16832.S8.S8") == (16, 8, 32)
    assert mma_shape("mma.m16n8k16.f32.bf16.bf16.f32") == (16, 8, 16)
    assert mma_shape("v_mfma_f32_16x16x32_fp8_fp8") == (16, 16, 32)
    assert mma_shape("tcgen05.mma.kind::f16") is None
