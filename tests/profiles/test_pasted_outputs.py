"""What people paste is read, or refused with the command that records the right file."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.profiles import explain, import_profile, measured_rows, read_rules
from perfatlas.quantities import InvalidSpecError
from tests.profiles.samples import NCCL, nsys_database
from tests.profiles.test_further_formats import ROCPROF, results_of
from validation.runs import shared_folder

CASES: Final = shared_folder() / "field_cases"
PREFIXES: Final = {
    "mpirun --tag-output": "[1,0]<stdout>:",
    "mpirun --timestamp-output": "Fri May  1 04:11:09 2026[1,0]<stdout>:",
    "srun --label": "0: ",
    "srun --label, ten ranks": " 0: ",
    "kubectl logs --prefix": "[pod/launcher-abc/main] ",
    "kubectl logs --timestamps": "2026-05-01T04:11:09.123456789Z ",
    "kubectl logs, both": "[pod/launcher-abc/main] 2026-05-01T04:11:09.123456789Z ",
    "container runtime": "2026-05-01T04:11:09.123456789Z stdout F ",
    "pdsh": "node-1.cluster: ",
    "docker compose logs": "worker-1  | ",
}
NSYS: Final = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    '75.0,3000,3,1000.0,1000.0,900,1100,10.0,"sm90_xmma_gemm_bf16"\n'
    '25.0,1000,2,500.0,500.0,400,600,10.0,"void add<(int)4, float>(float *)"\n'
)
NSYS_TEXT: Final = """
 ** CUDA API Summary (cuda_api_sum):

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Name
 --------  ---------------  ---------  --------  ----------------
    100.0        9,000,000          5   1,800.0  cudaLaunchKernel

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

 Time (%)  Total Time (ns)  Instances  Avg (ns)  Name
 --------  ---------------  ---------  --------  ------------------------
     75.0            3,000          3   1,000.0  sm90_xmma_gemm_bf16
     25.0            1,000          2     500.0  void add<(int)4>(float *)

 ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):

 Time (%)  Total Time (ns)  Count  Avg (ns)  Operation
 --------  ---------------  -----  --------  ------------------
    100.0            7,000      1   7,000.0  [CUDA memcpy HtoD]
"""
RULE: Final = "-" * 14 + "  " + "  ".join(["-" * 12] * 5)
TORCH: Final = f"""step 12
{RULE}
          Name    Self CPU %      Self CPU     Self CUDA   Self CUDA %    # of Calls
{RULE}
      aten::mm         1.00%       1.000ms       3.000us        75.00%             3
 ProfilerStep*         9.00%       9.000ms       0.000us         0.00%             1
 ProfilerStep*         0.00%       0.000us       9.000ms       900.00%             1
     sm90_gemm         0.00%       0.000us       3.000us        75.00%             3
   Memset (De)         0.00%       0.000us       1.000us        25.00%             2
{RULE}
Self CPU time total: 100.000ms
Self CUDA time total: 4.000us
"""
ROCPROF_STATS: Final = (
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
    '"Cijk_Ailk_Bljk",3,3000,1000.0,75.0\n"add",2,1000,500.0,25.0\n"hipMalloc",9,9,1.0,0.0\n'
)
SUMMARIES: Final = {
    "nsys_stats": NSYS,
    "nsys_stats ": NSYS_TEXT,
    "torch_table": TORCH,
    "rocprof_stats": ROCPROF_STATS,
}


@pytest.mark.parametrize("launcher", PREFIXES)
def test_lines_with_the_prefix_of_a_launcher_are_read(launcher: str, tmp_path: Path) -> None:
    text = "".join(PREFIXES[launcher] + line for line in NCCL.splitlines(keepends=True))
    plain, prefixed = results_of(tmp_path / "a.log", NCCL), results_of(tmp_path / "b.log", text)
    assert prefixed == plain
    assert [row["count"] for row in plain["operators"]] == [1]


def test_processes_of_one_rank_communicate_nothing(tmp_path: Path) -> None:
    text = NCCL.replace("Rank  1", "Rank  0").replace("on node-1 device  1", "on node-2 device  1")
    results = results_of(tmp_path / "all_reduce.log", text)
    (row,) = results["operators"]
    assert "1 rank on 1 node" in row["shape"]
    assert row["predicted_s"] is None
    assert "nothing was communicated" in " ".join(results["integrity"])


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_are_rows_without_a_timeline(name: str, tmp_path: Path) -> None:
    results = results_of(tmp_path / "summary.txt", SUMMARIES[name])
    assert (results["format"], results["wall_s"]) == (name.strip(), None)
    listed = [(row["count"], row["time_s"]) for row in results["operators"]]
    assert listed == [(3, pytest.approx(3e-6)), (2, pytest.approx(1e-6))]
    assert results["classes"][0]["class"] == "gemm"
    assert results["classes"][0]["share"] == pytest.approx(0.75)
    assert "gaps, overlap, idle time" in " ".join(results["integrity"])
    with pytest.raises(InvalidSpecError, match="shape"):
        measured_rows([import_profile(tmp_path / "summary.txt")], read_rules())


def test_the_mean_time_of_a_kernel_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.csv").write_text(NSYS)
    assert main(["profile", str(tmp_path / "k.csv")]) == 0
    shown = capsys.readouterr().out
    assert "5 executions" in shown
    assert "1.00 µs" in shown  # 3 µs in 3 calls


def test_missing_rows_of_a_summary_are_told(tmp_path: Path) -> None:
    cut = NSYS[: NSYS.index(",500.0")]
    notes = " ".join(results_of(tmp_path / "k.csv", cut)["integrity"])
    assert "1 row that could not be read" in notes
    assert "75% of the time" in notes


REFUSED: Final = {
    "api": (NSYS.replace("Instances", "Num Calls"), "nsys stats --report cuda_gpu_kern_sum"),
    "locale": (NSYS.replace("3000,3", "3000,0,3").replace("1000,2", "1000,0,2"), "nsys export"),
    "cpu": (TORCH.replace("Self CUDA", "Self CPU Mem"), "export_chrome_trace"),
    "twice": (NSYS.replace("25.0,", "75.0,"), "150% of its time"),
    "calls": (
        ROCPROF_STATS[: ROCPROF_STATS.index('"Cijk')] + '"hipMalloc",9,9,1,100\n',
        "rocprofv3",
    ),
    "untimed": ('"Index","KernelName","gpu-id"\n0,"k",1\n', "rocprof --timestamp on"),
    "large": (NSYS + "x\n" * (1 << 21), "keep the lines"),
    "words": (NSYS.splitlines()[0] + "\n" + "k" * (1 << 20) + '"' + "\n", "nsys export"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_summaries_name_the_command(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, command = REFUSED[name]
    (tmp_path / "k.txt").write_text(text)
    assert main(["profile", str(tmp_path / "k.txt")]) == 3
    assert command in capsys.readouterr().err


def test_the_table_of_rocprof_has_a_timeline(tmp_path: Path) -> None:
    text = (
        '"Index","KernelName","gpu-id","queue-id","BeginNs","EndNs","DurationNs"\n'
        '0,"Cijk_Ailk_Bljk.kd",1,0,2000,5000,3000\n1,"add.kd",1,0,6000,7000,1000\n'
    )
    results = results_of(tmp_path / "results.csv", text)
    assert (results["wall_s"], results["busy_s"]) == pytest.approx((5e-6, 4e-6))


def test_a_trace_that_names_no_device_is_given_its_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.csv").write_text(ROCPROF)
    command = ["profile", str(tmp_path / "trace.csv"), "--on", "mi300x"]
    assert main(command) == 3
    assert "--system" in capsys.readouterr().err
    assert main([*command, "--system", "mi355x"]) == 0
    assert "priced as mi355x" in capsys.readouterr().out
    (tmp_path / "all_reduce.log").write_text(NCCL)
    assert main(["profile", str(tmp_path / "all_reduce.log"), "--system", "mi355x"]) == 3
    assert "--on mi355x" in capsys.readouterr().err


def test_tables_with_a_version_are_read(tmp_path: Path) -> None:
    plain = explain([import_profile(nsys_database(tmp_path / "a.sqlite"))], read_rules())
    path = nsys_database(tmp_path / "b.sqlite")
    with sqlite3.connect(path) as base:
        for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS"):
            base.execute(f"ALTER TABLE {table} RENAME TO {table}_V3")
    base.close()
    assert explain([import_profile(path)], read_rules()) == plain
    with sqlite3.connect(path) as base:
        base.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL_V3 RENAME COLUMN start TO begins")
    base.close()
    with pytest.raises(InvalidSpecError, match="schema of Nsight Systems that is not known"):
        import_profile(path)


@pytest.mark.parametrize(
    ("name", "kernels"),
    [
        ("nccl/tagged.txt", 2),
        ("nccl/all_reduce_mpiless.log", 2),
        ("logs/nsys_stats.csv", 10240),
        ("logs/torch_table.txt", 300),
        ("logs/rocprofv3_stats.csv", 20),
        ("logs/rocprof_v1.csv", 2),
        ("nsys/suffix_v2.sqlite", 10),
    ],
)
def test_field_cases(name: str, kernels: int) -> None:
    if not (CASES / name).is_file():
        pytest.skip(f"no {CASES / name}; PERFATLAS_SHARED_DATA names the folder of shared data")
    results: dict[str, Any] = explain([import_profile(CASES / name)], read_rules())
    assert results["kernels"] == kernels
