"""Small profiles made by hand, whose figures are worked out in the tests."""

from __future__ import annotations

import gzip
import json
import sqlite3
from pathlib import Path
from typing import Any, Final

ORIGIN_US: Final = 5e12
MM: Final[dict[str, Any]] = {
    "Input Dims": [[64, 128], [128, 256]],
    "Input type": ["c10::BFloat16", "c10::BFloat16"],
}
ADD: Final[dict[str, Any]] = {
    "Input Dims": [[1 << 16, 1024], [1, 1024], []],
    "Input type": ["float", "float", "Scalar"],
}
ALL_REDUCE: Final[dict[str, Any]] = {
    "Collective name": "allreduce",
    "In msg nelems": 1 << 20,
    "Out msg nelems": 1 << 20,
    "dtype": "BFloat16",
    "Group size": 8,
}


def event(
    category: str, name: str, start_us: float, time_us: float, **args: object
) -> dict[str, Any]:
    place = {"pid": 0, "tid": 7} if category.startswith(("kernel", "gpu")) else {"pid": 9, "tid": 9}
    times = {"ts": ORIGIN_US + start_us, "dur": time_us}
    return {"ph": "X", "cat": category, "name": name, **place, **times, "args": args}


def launch(name: str, start_us: float, correlation: int) -> dict[str, Any]:
    return event("cuda_runtime", name, start_us, 2.0, correlation=correlation)


def trace(rank: int = 0, world_size: int = 1) -> dict[str, Any]:
    """Five activities of one GPU: a GEMM, an all-reduce over its end, a sum, a copy, an orphan."""
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
        "distributedInfo": {"rank": rank, "world_size": world_size},
        "traceEvents": [
            event("cpu_op", "aten::linear", 96.0, 14.0),
            event("cpu_op", "aten::mm", 98.0, 10.0, **MM),
            launch("cudaLaunchKernel", 100.0, 1),
            launch("cudaLaunchKernelExC", 112.0, 2),
            launch("cudaMalloc", 115.0, 50),
            event("cpu_op", "aten::add", 189.0, 10.0, **ADD),
            launch("cuLaunchKernel", 190.0, 3),
            launch("cudaMemcpyAsync", 195.0, 4),
            event("kernel", "sm90_xmma_gemm_bf16", 110.0, 40.0, device=0, correlation=1),
            event(
                "kernel",
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)",
                *(140.0, 30.0),
                device=0,
                correlation=2,
                **ALL_REDUCE,
            ),
            event("kernel", "void at::native::add_functor<int>(int)", 200.0, 20.0, correlation=3),
            event("gpu_memcpy", "Memcpy DtoH", 230.0, 10.0, correlation=4),
            event("kernel", "my_kernel", 260.0, 10.0, correlation=99),
        ],
    }


def written(path: Path, content: object) -> Path:
    """Write JSON, compressed where the name ends in gz."""
    data = json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def nsys_database(path: Path) -> Path:
    """Two processes of one GPU each with equal correlations, and one graph of two kernels."""
    first, second = 1 << 24, 2 << 24
    with sqlite3.connect(path) as base:
        base.executescript(
            """
            CREATE TABLE StringIds (id INTEGER, value TEXT);
            INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'cudaGraphLaunch_v1'),
                (3, 'cutlass::Kernel<gemm>'), (4, 'elementwise_kernel');
            CREATE TABLE TARGET_INFO_GPU (id INTEGER, name TEXT);
            INSERT INTO TARGET_INFO_GPU VALUES (0, 'NVIDIA H200');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER,
                correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER,
                correlationId INTEGER, globalTid INTEGER, nameId INTEGER);
            CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, globalTid INTEGER, text TEXT,
                textId INTEGER);
            INSERT INTO NVTX_EVENTS VALUES (100, 900, 16777221, 'layer 1', NULL),
                (400, 800, 16777221, 'aten::mm, op_id = 7, sizes = [[8, 64], [64, 32]]', NULL),
                (100, 900, 33554432, NULL, 3), (450, NULL, 16777221, 'mark', NULL);
            CREATE TABLE DIAGNOSTIC_EVENT (text TEXT);
            INSERT INTO DIAGNOSTIC_EVENT VALUES ('Some events were dropped.'), ('Started.');
            """
        )
        base.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?)",
            [
                (1000, 3000, 0, 1, first, 3),
                (5000, 6000, 0, 2, first, 4),
                (8000, 9000, 0, 2, first, 4),
                (1000, 2000, 1, 1, second, 3),
                (4000, 5000, 1, 7, second, 3),
            ],
        )
        base.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?)",
            [(500, 600, 1, first + 5, 1), (3500, 3600, 2, first + 5, 2), (700, 800, 1, second, 1)],
        )
    base.close()
    return path


NCU: Final = """==PROF== Connected to process 7 (gemm)
the program says "hello"
"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value","Rule"
"0","sm90_gemm","(128, 1, 1)","(9, 1, 1)","SM Frequency","hz","1,239,496,049.13",
"0","sm90_gemm","(128, 1, 1)","(9, 1, 1)","Duration","us","1,406.25",
"1","flash_fwd","(128, 1, 1)","(4, 1, 1)","Duration","ns","2000",
"2","flash_fwd","(128, 1, 1)","(4, 1, 1)","Duration","parsec","1",
==PROF== Disconnected from process 7
"""

NCCL: Final = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1024 maxBytes 2048 step: 2(factor)
# Using devices
#  Rank  0 Group  0 Pid 11 on node-1 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid 12 on node-1 device  1 [0000:43:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)
node-1:1:1 [0] NCCL INFO Launch mode Parallel
           0             0     float     sum      -1  11.0  0.0  0.0  0  11.0  0.0  0.0  0
     1048576        262144     float     sum      -1  25.0  41.9  41.9  0  24.0  43.7  43.7  0
# Out of bounds values : 3 FAILED
"""

NVBENCH: Final[dict[str, Any]] = {
    "meta": {"version": {"nvbench": {"string": "0.1.0"}}},
    "devices": [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}],
    "benchmarks": [
        {
            "name": "copy_sweep",
            "states": [
                {
                    "device": 0,
                    "is_skipped": False,
                    "axis_values": [{"name": "T", "value": "U8"}],
                    "summaries": [
                        {
                            "tag": "nv/cold/time/gpu/mean",
                            "data": [{"name": "value", "value": "0.0025"}],
                        }
                    ],
                },
                {"device": 0, "is_skipped": True, "axis_values": None, "summaries": None},
            ],
        }
    ],
}
