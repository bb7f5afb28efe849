"""Formats without a sample of their own on every machine: small files made by hand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest

from perfatlas.cli import main
from perfatlas.profiles import explain, import_profile, read_rules, system_of
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from pathlib import Path

ROCPROF: Final = (
    '"Kind","Agent_Id","Queue_Id","Thread_Id","Kernel_Name","Correlation_Id","Start_Timestamp",'
    '"End_Timestamp"\n'
    '"KERNEL_DISPATCH","Agent 4",1,7,"void add<float>(float*, int)",1,1000,4000\n'
    '"KERNEL_DISPATCH","Agent 4",2,7,"Cijk_Ailk_Bljk_BBS",2,2000,7000\n'
    '"KERNEL_DISPATCH","Agent 4",1,7,"void add<float>(float*, int)",3,9000,soon\n'
    '"KERNEL_DISPATCH",5,1,7,"void add<float>(float*, int)",4,3000,5000\n'
)


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


BROKEN: Final = {
    "cut.json": json.dumps(rocprof_json())[:-30],
    "empty.json": '{"rocprofiler-sdk-tool": []}',
    "other.json": '{"rocprofiler-sdk-tool": {"agents": 3}}',
    "rows.csv": ROCPROF.splitlines()[0] + '\n"K","Agent 1",1,1,"k",1,-5,x\n',
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_text(BROKEN[name])
    assert main(["profile", str(tmp_path / name)]) == 3
    assert name in capsys.readouterr().err


def test_what_only_other_tools_read_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "traces.tar").write_bytes(b"a" * 257 + b"ustar" + bytes(300))
    with pytest.raises(InvalidSpecError, match="tar archive; extract it"):
        import_profile(tmp_path / "traces.tar")


def test_board_names_of_profilers_mean_systems() -> None:
    card = system_of("NVIDIA A100-PG509-200")
    assert card == system_of("NVIDIA A100-SXM4-40GB") != ""
