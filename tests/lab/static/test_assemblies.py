"""Instructions, loops and facts from SASS, PTX and AMD assembly, without any tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfatlas.lab.static.amdgcn import amdgcn_kernels
from perfatlas.lab.static.inspection import silent_decisions
from perfatlas.lab.static.kernel import Instructions, Kernel
from perfatlas.lab.static.program import natural_loops
from perfatlas.lab.static.ptx import ptx_kernels
from perfatlas.lab.static.sass import functions_of, with_instructions
from perfatlas.quantities import InvalidSpecError

HERE = Path(__file__).parent
KERNEL = Kernel(function="k", target="sm_100")
# A loop whose wait is out of line behind the exit, as compilers place it.
BLACKWELL = """
\t.section\t.text.k,"ax",@progbits
k:
        /*0000*/                   UMOV UR7, 0x4 ;
        /*0010*/                   UTCATOMSWS.FIND_AND_SET.ALIGN UP0, UR4, UR7 ;
        /*0020*/                   USETMAXREG.DEALLOC.CTAPOOL 0x18 ;
        /*0030*/                   STL [R1], R2 ;
.L_x_1:
        /*0040*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3] ;
        /*0050*/              @!P0 BRA `(.L_x_2) ;
.L_x_3:
        /*0060*/                   UTMALDG.2D [UR8], [UR4] ;
        /*0070*/                   UTCHMMA gdesc[UR4], gdesc[UR14], tmem[UR9], tmem[UR32] ;
        /*0080*/                   LDL R2, [R1] ;
        /*0090*/               @P1 BRA `(.L_x_1) ;
        /*00a0*/                   EXIT ;
.L_x_2:
        /*00b0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3] ;
        /*00c0*/              @!P0 BRA `(.L_x_2) ;
        /*00d0*/                   BRA `(.L_x_3) ;
.L_x_4:
        /*00e0*/                   BRA `(.L_x_4);
        /*00f0*/                   NOP ;
"""
PTX = """
.version 9.4
.target sm_100a
.visible .entry k(.param .u64 p)
.reqntid 128, 2
{
  .reg .b32 %r<4>;
  .shared .align 16 .b8 staged[2048];
  tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 256;
$L__BB0_1:
  @%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier [%r2], [%rd1];
  tcgen05.mma.cta_group::1.kind::f16 [ %r1 + 0 ], %rd2, %rd3, %r3, 1;
  setmaxnreg.dec.sync.aligned.u32 24;
  @%p1 bra $L__BB0_1;
  ret;
}
"""
GFX = """
\t.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
k:
\ts_load_dwordx4 s[0:3], s[4:5], 0x0
.LBB0_1:
\tds_read_b128 v[0:3], v4 offset:16
\tv_mfma_f32_32x32x8_bf16 v[0:15], v[0:1], v[2:3], v[0:15]
\tv_mov_b32_e32 v4, v5
\ts_cbranch_scc1 .LBB0_1
\ts_endpgm
amdhsa.kernels:
  - .agpr_count:     16
    .args:
      - .size:           8
        .name:           pointer
    .group_segment_fixed_size: 512
    .kernarg_segment_size: 56
    .max_flat_workgroup_size: 256
    .name:           k
    .private_segment_fixed_size: 20
    .vgpr_count:     144
    .vgpr_spill_count: 5
amdhsa.target:   amdgcn-amd-amdhsa--gfx942
"""


def test_a_kernel_of_a_compiler() -> None:
    text = (HERE / "wgmma.sm_90.sass").read_text("utf-8")
    kernel = with_instructions(KERNEL, functions_of(text)["wgmma"])
    assert kernel.instructions is not None
    assert kernel.main_loop is not None
    assert kernel.instructions.mma == {"HGMMA.64x8x16.F32.BF16": 5}
    assert kernel.main_loop.mma == {"HGMMA.64x8x16.F32.BF16": 4}  # unrolled by 4
    assert kernel.loops is not None
    assert [one.count for one in kernel.loops] == [29, 11]
    assert (kernel.tma, kernel.setmaxnreg) == (0, 0)
    assert (kernel.instructions.count, kernel.main_loop.count) == (81, 29)


def test_waits_out_of_line_are_part_of_the_loop() -> None:
    kernel = with_instructions(KERNEL, functions_of(BLACKWELL)["k"])
    assert kernel.main_loop is not None
    assert kernel.instructions is not None
    assert kernel.main_loop.mix == {"BRA": 4, "SYNCS": 2, "UTMALDG": 1, "UTCHMMA": 1, "LDL": 1}
    assert kernel.loops is not None
    assert [one.count for one in kernel.loops] == [9, 2]  # the wait is one
    assert (kernel.tma, kernel.setmaxnreg, kernel.tensor_memory_columns) == (1, 1, 128)
    assert (kernel.instructions.local_loads, kernel.instructions.local_stores) == (1, 1)
    assert "NOP" not in kernel.instructions.mix


def test_columns_of_tensor_memory_that_are_computed_are_not_known() -> None:
    text = BLACKWELL.replace("UMOV UR7, 0x4", "ULDC UR7, c[0x0][0x20]")
    assert with_instructions(KERNEL, functions_of(text)["k"]).tensor_memory_columns is None


def test_loops_of_a_flow_that_nobody_enters_by_one_way_are_none() -> None:
    # 1 and 2 follow each other and are both entered from 0: no instruction leads the cycle
    assert natural_loops([[1, 2], [2, 3], [1], []]) == []
    assert natural_loops([[1], [2], [3, 1], [0, 4], []]) == [{0, 1, 2, 3}, {1, 2}]
    assert natural_loops([]) == []


def test_ptx_shows_instructions_and_no_registers() -> None:
    (kernel,) = ptx_kernels(PTX, "k.ptx")
    assert kernel.instructions is not None
    assert kernel.main_loop is not None
    assert (kernel.target, kernel.threads, kernel.shared_memory_bytes) == ("sm_100", 256, 2048)
    assert kernel.instructions.mma == {"tcgen05.mma.kind::f16": 1}
    assert (kernel.tma, kernel.setmaxnreg, kernel.tensor_memory_columns) == (1, 1, 256)
    assert kernel.main_loop.count == 4
    assert kernel.registers is None
    assert kernel.spills_bytes is None
    with pytest.raises(InvalidSpecError, match=r"no \.target"):
        ptx_kernels("void main() {}", "k.ptx")


def test_amd_assembly() -> None:
    (kernel,) = amdgcn_kernels(GFX, "k.s")
    assert kernel.instructions is not None
    assert kernel.main_loop is not None
    assert (kernel.target, kernel.registers, kernel.accumulation_registers) == ("gfx942", 144, 16)
    assert (kernel.spills_bytes, kernel.stack_bytes) == (20, 20)  # 5 registers of 4 bytes
    assert (kernel.shared_memory_bytes, kernel.threads, kernel.parameter_bytes) == (512, 256, 56)
    assert kernel.instructions.mma == {"v_mfma_f32_32x32x8_bf16": 1}
    assert list(kernel.main_loop.mix)[:3] == [
        "ds_read_b128",
        "v_mfma_f32_32x32x8_bf16",
        "v_mov_b32",
    ]
    with pytest.raises(InvalidSpecError, match="amdgcn_target"):
        amdgcn_kernels("s_endpgm", "k.s")


def _decided(mma: dict[str, int], target: str = "sm_90", setmaxnreg: int = 0) -> list[str]:
    """Return what is said of a kernel whose source asks for everything."""
    found = Instructions(mma=mma)
    return silent_decisions(
        Kernel(
            function="k",
            target=target,
            instructions=found,
            setmaxnreg=setmaxnreg,
            asks_specialization=True,
            asks_scaled_mma=True,
            asks_mma=True,
        )
    )


def test_what_compilers_decide_against_the_source() -> None:
    ignored, emulated = _decided({"HGMMA.64x128x16.F32.BF16": 4})
    assert "ignored it for sm_90" in ignored
    assert "emulated by HGMMA" in emulated
    assert _decided({"UTCOMMA": 2}, "sm_100", setmaxnreg=2) == []
    assert _decided({"OMMA.SF.16864.F32.E2M1.E2M1.E8": 64}, "sm_120", setmaxnreg=2) == []
    assert "without matrix instructions" in _decided({})[-1]


def _plain(found: Instructions, target: str, loop: Instructions | None = None) -> list[str]:
    kernel = Kernel(function="k", target=target, instructions=found, main_loop=loop)
    return silent_decisions(kernel)


def test_matrix_instructions_of_older_gpus() -> None:
    mma_sync = Instructions(mma={"HMMA.16816.F32": 4})
    assert "wgmma" in _plain(mma_sync, "sm_90")[0]
    assert "tcgen05" in _plain(mma_sync, "sm_100")[0]
    assert _plain(mma_sync, "sm_120") == []
    assert _plain(Instructions(mma={"HGMMA.64x128x16.F32.BF16": 4}), "sm_90") == []


def test_spills_are_placed() -> None:
    spilled = Instructions(local_loads=3, local_stores=1)
    assert "3 loads and 1 store" in _plain(spilled, "sm_90")[0]
    assert "none in the main loop" in _plain(spilled, "sm_90", Instructions())[0]
    assert _plain(spilled, "sm_90", spilled)[0].endswith("in the main loop")
    assert silent_decisions(KERNEL) == []
