"""`perfatlas kernel inspect`: files, refusals, and compilers where they are installed."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from perfatlas.cli import main
from perfatlas.lab.static.tools import find_nvdisasm, nvidia_files
from tests.lab.static.elf_files import fat_binary, one_kernel
from tests.lab.static.test_assemblies import GFX, PTX

HERE = Path(__file__).parent
CUBIN = HERE / "fixture.sm_90.cubin"
WITHOUT_TRITON = importlib.util.find_spec("triton") is None
WITHOUT_NVRTC = not nvidia_files("lib/libnvrtc.so.*")
EXAMPLE = str(HERE.parents[2] / "examples" / "kernels" / "gemm.py")


def _inspected(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main(["kernel", "inspect", *words, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def _refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["kernel", "inspect", *words]) == 3
    return capsys.readouterr().err


def test_a_cubin_without_tools(capsys: pytest.CaptureFixture[str]) -> None:
    answer = _inspected(capsys, str(CUBIN), "--function", "wgmma")
    results = answer["results"]
    assert (results["registers"], results["spills_bytes"], results["threads"]) == (30, 0, 128)
    assert results["shared_memory_bytes"] == 512
    assert results["occupancy"]["blocks_per_sm"] == 16  # 32 registers: 64 warps of 4 per block
    if find_nvdisasm() is None:
        assert results["mma"] is None
        assert "./lab[cuda]" in answer["warnings"][0]
    else:
        assert results["mma"] == {"HGMMA.64x8x16.F32.BF16": 5}


def test_launch_by_flags(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--function", "local", "--threads", "256", "--shared-memory-bytes", "65536")
    found = _inspected(capsys, str(CUBIN), *words)["results"]
    assert (found["shared_memory_bytes"], found["shared_memory_is_static"]) == (65536, False)
    assert found["occupancy"]["limited_by"] == ["shared memory"]


def test_files_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other, assembly = tmp_path / "lib.so", tmp_path / "k.s"
    other.write_bytes(b"host" + fat_binary(one_kernel()))
    assembly.write_text(GFX)
    answer = _inspected(capsys, str(other), "--against", str(assembly))
    assert [row["target"] for row in answer["results"]["kernels"]] == ["sm_90", "gfx942"]
    assert main(["kernel", "inspect", str(other), "--against", str(assembly)]) == 0
    text = capsys.readouterr().out
    assert "144 (16 AGPRs)" in text
    assert "20 bytes" in text


def test_ptx_says_what_it_does_not_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(PTX)
    answer = _inspected(capsys, str(path))
    assert answer["results"]["registers"] is None
    assert answer["results"]["warp_specialized"] is True
    assert "ptxas decides" in answer["warnings"][0]


def test_a_reproducer_of_a_cubin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _inspected(capsys, str(CUBIN), "--function", "wgmma", "--reproducer", str(tmp_path / "r"))
    assert {one.name for one in (tmp_path / "r").iterdir()} == {
        *(CUBIN.name, "commands.txt", "versions.txt")
    }
    assert (tmp_path / "r" / CUBIN.name).read_bytes() == CUBIN.read_bytes()
    assert "perfatlas kernel inspect" in (tmp_path / "r" / "commands.txt").read_text()


HOSTILE = {
    "empty.cubin": (b"", "is empty"),
    "zeros.cubin": (bytes(4096), "is empty"),
    "cut.cubin": (CUBIN.read_bytes()[:2000], "truncated or damaged"),
    "words.txt": (b"hello", "none of the files"),
    "random.bin": (bytes(range(256)) * 8, "none of the files"),
    "k.s": (b"s_endpgm", "amdgcn_target"),
    "k.ptx": (b".target sm_90\n.version 8", "no .entry"),
    "fat.so": (fat_binary(b"junk"), "truncated or damaged"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, message = HOSTILE[name]
    (tmp_path / name).write_bytes(content)
    assert message in _refusal(capsys, str(tmp_path / name))


def test_folders_sparse_and_missing_files_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "is a folder" in _refusal(capsys, str(tmp_path))
    assert "cannot be read" in _refusal(capsys, str(tmp_path / "none.cubin"))
    path = tmp_path / "sparse.cubin"
    shutil.copyfile(CUBIN, path)
    os.truncate(path, 1 << 31)
    assert "2,147,483,648 bytes" in _refusal(capsys, str(path))


def test_wrong_questions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none for sm_100" in _refusal(capsys, str(CUBIN), "--target", "sm_100")
    assert "kernels: local, wgmma" in _refusal(capsys, str(CUBIN), "--function", "foo")
    (tmp_path / "k.cu").write_text("")
    (tmp_path / "k.py").write_text("x = 1")
    assert "is empty" in _refusal(capsys, str(tmp_path / "k.cu"), "--target", "sm_90")
    assert "set --target" in _refusal(capsys, str(tmp_path / "k.py"))
    (tmp_path / "k.cu").write_text("int x;")
    assert "NVRTC" in _refusal(capsys, str(tmp_path / "k.cu"), "--target", "gfx942")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--threads", "-1"), "--threads -1 is out of bounds; set 1 to 1,024"),
        (("--threads", "100000"), "set 1 to 1,024"),
        (("--shared-memory-bytes", "-5"), "set 0 or more"),
        (("--num-warps", "0"), "set 1 or more"),
        (("--num-stages", "3"), "--num-stages applies only to Triton sources"),
    ],
)
def test_flags_out_of_bounds_or_of_other_files_are_refused(
    words: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in _refusal(capsys, str(CUBIN), *words)


def test_blocks_that_no_multiprocessor_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (str(CUBIN), "--function", "wgmma", "--shared-memory-bytes", "232448")
    problem = (
        "does not launch on sm_90: needs 232,960 bytes of shared memory, and a block has at most"
        " 232,448"
    )
    results = _inspected(capsys, *words)["results"]
    assert results["launch_problem"] == problem
    assert main(["kernel", "inspect", *words]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "none: does not launch" in text
    assert f"warning: {problem}" in text
    path = tmp_path / "k.ptx"
    path.write_text(PTX.replace("staged[2048]", "staged[300000]").replace("128, 2", "1024, 2"))
    assert _inspected(capsys, str(path))["results"]["launch_problem"] == (
        "does not launch on sm_100: needs 2,048 threads and 300,000 bytes of shared memory, and a"
        " block has at most 1,024 and 232,448"
    )


@pytest.mark.skipif(not WITHOUT_TRITON, reason="Triton is installed")
def test_the_missing_extra_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "inspect", EXAMPLE, "--target", "sm_90"]) == 6
    assert "./lab[bench]" in capsys.readouterr().err


@pytest.mark.skipif(WITHOUT_NVRTC, reason="the extra cuda is not installed")
@pytest.mark.parametrize("target", ["sm_90", "sm_100", "sm_103", "sm_120"])
def test_cuda_compiles_for_each_target(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (HERE / "fixture.cu").read_text()
    if target != "sm_90":  # wgmma is of sm_90 alone
        source = source[source.index("// An array") :]
    (tmp_path / "k.cu").write_text("#include <cuda/std/cstdint>\n#include <cuda_bf16.h>\n" + source)
    found = _inspected(capsys, str(tmp_path / "k.cu"), "--target", target, "--function", "local")
    results = found["results"]
    assert (results["target"], results["stack_bytes"], results["spills_bytes"]) == (target, 128, 0)


@pytest.mark.skipif(WITHOUT_NVRTC, reason="the extra cuda is not installed")
def test_errors_of_cuda_sources_are_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.cu").write_text("__global__ void f() { garbage }")
    assert "garbage" in _refusal(capsys, str(tmp_path / "k.cu"), "--target", "sm_90")


@pytest.mark.skipif(WITHOUT_TRITON, reason="the extra bench is not installed")
def test_triton_on_two_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--target", "sm_90", "--target", "sm_100", "--reproducer", str(tmp_path / "r"))
    answer = _inspected(capsys, EXAMPLE, *words)
    hopper, blackwell = answer["results"]["kernels"]
    assert list(hopper["mma"]) == ["HGMMA.64x128x16.F32.BF16"]
    assert list(blackwell["mma"]) == ["UTCHMMA"]
    assert (hopper["warp_specialized"], blackwell["warp_specialized"]) == (False, True)
    assert (hopper["tensor_memory_columns"], blackwell["tensor_memory_columns"]) == (0, 128)
    assert "ignored it for sm_90" in answer["warnings"][0]
    assert answer["evidence"]["data_versions"]["triton"].startswith("3.")
    assert {"gemm.py", "gemm.sm_90.ptx", "gemm.sm_100.cubin"} < {
        one.name for one in (tmp_path / "r").iterdir()
    }


@pytest.mark.skipif(WITHOUT_TRITON, reason="the extra bench is not installed")
def test_triton_for_amd_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    found = _inspected(capsys, EXAMPLE, "--target", "gfx950")["results"]
    assert next(iter(found["mma"])).startswith("v_mfma_f32")
    assert found["threads"] == 512


@pytest.mark.skipif(WITHOUT_TRITON, reason="the extra bench is not installed")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "declares no KERNELS"),
        ("KERNELS = {'k': {'signature': {}}}", "needs a @triton.jit kernel k"),
        ("def (", "SyntaxError"),
        ("import os; os._exit(3)", "ended with 3"),
    ],
)
def test_python_files_without_kernels_are_refused(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.py").write_text(text)
    assert message in _refusal(capsys, str(tmp_path / "k.py"), "--target", "sm_90")
