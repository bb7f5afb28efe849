"""Formats without a sample of their own on every machine: small files made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.profiles import explain, import_profile, read_rules, system_of

ROCPROF: Final = (
    '"Kind","Agent_Id","Queue_Id","Thread_Id","Kernel_Name","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp"\n'
    '"KERNEL_DISPATCH","Agent 4",1,7,"void add<float>(float*, int)",1,1000,4000\n'
    '"KERNEL_DISPATCH","Agent 4",2,7,"Cijk_Ailk_Bljk_BBS",2,2000,7000\n'
    '"KERNEL_DISPATCH","Agent 4",1,7,"void add<float>(float*, int)",3,9000,soon\n'
    '"KERNEL_DISPATCH",5,1,7,"void add<float>(float*, int)",4,3000,5000\n'
)
CUTLASS: Final = """
=============================
  Problem ID: 1
CSV Results:

Problem,Provider,OperationKind,Operation,Disposition,Status,gemm_kind,m,n,k,A,B,C,batch_count,Bytes,Flops,Runtime,GB/s,GFLOPs
1,CUTLASS,gemm,cutlass_tensorop_bf16_gemm_a,passed,success,universal,64,128,256,bf16:row,bf16:column,f32:row,1,9,9,0.25,1,1
1,CUTLASS,gemm,cutlass_tensorop_bf16_gemm_b,passed,success,universal,64,128,256,bf16:row,bf16:column,f32:row,2,9,9,0.5,1,1
1,CUTLASS,gemm,cutlass_tensorop_bf16_gemm_c,incorrect,invalid_problem,universal,64,128,256,bf16:row,bf16:column,f32:row,1,9,9,0,1,1
1,CUTLASS,spgemm,cutlass_tensorop_spgemm,passed,success,spgemm,64,128,256,u4:row,u4:column,f32:row,1,9,9,0.75,1,1
"""
NODES: Final[list[dict[str, Any]]] = [
    {"id": "1", "name": "aten::mm", "type": "COMP_NODE", "durationMicros": "9"},
    {"id": "2", "name": "sm90_gemm", "type": "COMP_NODE", "durationMicros": "5"},
    {"id": "3", "name": "ncclDevKernel_AllReduce", "type": "COMM_COLL_NODE"},
    {"id": "4", "name": "ncclDevKernel_AllReduce", "durationMicros": "7"},
]
GRAPH: Final = [
    {"Id": 1, "Name": "aten::mm", "NodeType": 4, "runtime": 9, "is_cpu_op": True},
    {"Id": 2, "Name": "sm90_gemm", "NodeType": 4, "runtime": 5, "is_cpu_op": False},
    {"Id": 3, "Name": "ncclKernel_AllReduce", "NodeType": 7, "is_cpu_op": False},
    {"Id": 4, "Name": "ncclKernel_AllReduce", "NodeType": 7, "runtime": 7, "is_cpu_op": False},
]


def results_of(path: Path, text: str) -> dict[str, Any]:
    path.write_text(text)
    return explain([import_profile(path)], read_rules())


def rocprof_json() -> dict[str, Any]:
    """Two kernels, of one queue of one GPU."""
    dispatches = [
        {
            "start_timestamp": start_ns,
            "end_timestamp": end_ns,
            "dispatch_info": {
                "agent_id": {"handle": 99},
                "queue_id": {"handle": 16},
                "kernel_id": 8,
            },
        }
        for start_ns, end_ns in ((1000, 4000), (6000, 8000))
    ]
    agent = {"id": {"handle": 99}, "node_id": 2, "product_name": "AMD Instinct MI300X"}
    tool = {
        "agents": [agent, {"id": {"handle": 1}, "node_id": 0, "product_name": "AMD EPYC"}],
        "kernel_symbols": [{"kernel_id": 8, "formatted_kernel_name": "Cijk_Ailk_Bljk_BBS"}],
        "buffer_records": {"kernel_dispatch": dispatches},
    }
    return {"rocprofiler-sdk-tool": [tool]}


def test_a_table_of_rocprofv3_has_devices_and_queues(tmp_path: Path) -> None:
    results = results_of(tmp_path / "7_kernel_trace.csv", ROCPROF)
    assert (results["format"], results["devices"], results["kernels"]) == ("rocprof", 2, 3)
    assert results["kernel_s"] == pytest.approx(10e-6)
    # GPU 4 is busy from 1 to 7 µs, GPU 5 from 3 to 5 µs
    assert results["busy_s"] == pytest.approx((6e-6 + 2e-6) / 2)
    assert "1 kernel without a valid time left out" in results["integrity"]


def test_the_json_of_rocprofv3_names_its_device(tmp_path: Path) -> None:
    results = results_of(tmp_path / "7_results.json", json.dumps(rocprof_json()))
    assert (results["system"], results["kernels"]) == ("mi300x", 2)
    assert (results["busy_s"], results["wall_s"]) == pytest.approx((5e-6, 7e-6))


def test_the_cutlass_profiler_has_a_case_for_each_kernel(tmp_path: Path) -> None:
    results = results_of(tmp_path / "run.log", CUTLASS)
    assert [(row["name"], row["shape"], row["time_s"]) for row in results["operators"]] == [
        (
            "cutlass_tensorop_spgemm",
            "gemm_kind=spgemm m=64 n=128 k=256 A=u4:row B=u4:column C=f32:row batch_count=1",
            pytest.approx(0.75e-3),
        ),
        ("cutlass_tensorop_bf16_gemm_b", "m=64 n=128 k=256 groups=2 bf16", pytest.approx(0.5e-3)),
        ("cutlass_tensorop_bf16_gemm_a", "m=64 n=128 k=256 bf16", pytest.approx(0.25e-3)),
    ]
    assert "1 kernel that did not run or have no time" in results["integrity"]


@pytest.mark.parametrize("form", ["graph", "objects"])
def test_chakra_traces_have_the_operators_of_devices(form: str, tmp_path: Path) -> None:
    if form == "graph":
        text = json.dumps({"workload_graph": GRAPH, "ngpus": 8}, indent=2)
    else:
        attributes = [[{"name": "is_cpu_op", "boolVal": number == 0}] for number in range(3)]
        nodes = [one | {"attr": flags} for one, flags in zip(NODES, attributes, strict=False)]
        values = [{"version": "0.0.4"}, *nodes, NODES[3]]
        text = "".join(json.dumps(one, indent=2) for one in values)
    results = results_of(tmp_path / "et.json", text)
    assert (results["format"], results["kernels"]) == ("chakra", 2)
    assert {row["class"]: row["time_s"] for row in results["classes"]} == pytest.approx(
        {"communication": 7e-6, "gemm": 5e-6}
    )
    assert "1 operator of devices without a duration left out" in results["integrity"]


BROKEN: Final = {
    "cut.json": json.dumps(rocprof_json())[:-30],
    "empty.json": '{"rocprofiler-sdk-tool": []}',
    "other.json": '{"rocprofiler-sdk-tool": {"agents": 3}}',
    "rows.csv": ROCPROF.splitlines()[0] + '\n"K","Agent 1",1,1,"k",1,-5,x\n',
    "run.log": "\n".join(CUTLASS.splitlines()[:6]),
    "graph.json": '{"workload_graph": [{"Id": 1, "Name": "k"',
    "graph3.json": '{"workload_graph": 3}',
    "nodes.json": '{"version": "1"}{"id": "1", "name": "k", "attr": 7}',
    "host.json": json.dumps({"workload_graph": GRAPH[:1]}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(BROKEN[name])
    assert main(["profile", str(tmp_path / name)]) == 3
    assert name in capsys.readouterr().err


def test_board_names_of_profilers_mean_systems() -> None:
    card = system_of("NVIDIA A100-PG509-200")
    assert card == system_of("NVIDIA A100-SXM4-40GB") != ""
