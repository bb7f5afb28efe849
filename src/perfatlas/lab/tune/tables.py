"""Launch tables and sources: what an engine or a program loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfatlas.files import shipped_table
from perfatlas.lab.kernels import lab_kernel
from perfatlas.lab.tune.chip import DATA
from perfatlas.lab.tune.kernels import BLOCK, KERNELS
from perfatlas.quantities import InvalidSpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfatlas.lab.tune.tuner import Tuning

# Names of the configurations of vLLM
ENGINE_NAMES: Final = {
    "bm": "BLOCK_SIZE_M",
    "bn": "BLOCK_SIZE_N",
    "bk": "BLOCK_SIZE_K",
    "group": "GROUP_SIZE_M",
    "warps": "num_warps",
    "stages": "num_stages",
}


def launch_table(tunings: Sequence[Tuning]) -> dict[str, dict[str, Any]]:
    """Return the launch tables of tunings of one kernel, by name of their file.

    Experts have the files that vLLM looks up, one for each number of experts and width: the
    configuration of the nearest number of tokens is taken. Devices that it does not know, and
    changed ones, have their name in the catalog.

    Args:
        tunings: Shapes of one kernel.

    Raises:
        InvalidSpecError: Two shapes have one entry.

    Source:
        vLLM 0.32.0, get_config_file_name in vllm/model_executor/layers/fused_moe/fused_moe.py.
    """
    tables: dict[str, dict[str, Any]] = {}
    for one in tunings:
        question, design = one.question, one.priced.designs.row(one.order[0])
        key = str(question.shape[KERNELS[question.kernel].table_key])
        if question.kernel != "grouped_gemm":
            sizes = ", ".join(f"{name}={value}" for name, value in question.shape.items())
            tables.setdefault(f"{question.kernel}.json", {})[sizes] = design
            continue
        shape, kind = question.shape, question.number_format
        devices: dict[str, str] = shipped_table(DATA)["engine_devices"]
        experts = shape["experts"] // shape["ep"]
        width = shape["intermediate"] // shape["moe_tp"]
        words = [f"E={experts}", f"N={width}"]
        same = "" if question.device.overridden else devices.get(one.chip.name, "")
        words.append(f"device_name={same or one.chip.name}")
        words += [] if kind.activation_bytes > 1.0 else ["dtype=fp8_w8a8"]
        words += ["block_shape=[128,128]"] if kind.name == BLOCK else []
        config = {ENGINE_NAMES[name]: value for name, value in design.items()}
        table = tables.setdefault(f"{','.join(words)}.json", {})
        if table.setdefault(key, config) != config:
            raise InvalidSpecError(
                f"{key} tokens have two configurations in {','.join(words)}.json, whose name has no"
                " hidden size; write a folder for each"
            )
    return tables


def source_text(tunings: Sequence[Tuning]) -> dict[str, str]:
    """Return the Triton sources of tunings of one kernel, by name of their file."""
    found = {}
    for one in tunings:
        path = lab_kernel(KERNELS[one.question.kernel].source(one.question)).path
        found[path.name] = path.read_text("utf-8")
    return found
