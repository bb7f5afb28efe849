"""What machines do: their rates and power for the workloads of a study, from estimates.

Shape legend: K machines, W workloads, E ends of intervals (value, low, high).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfatlas.energy import board_energy, node_power
from perfatlas.hardware import resolve_system
from perfatlas.quantities import InfeasibleError, InvalidSpecError, PerfatlasError
from perfatlas.reliability.fleet.closed_form import best_goodput
from perfatlas.studies import deployments
from perfatlas.studies.fleet_plans.ageing import MONTH_S, node_failures

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfatlas.studies.fleet_plans.purchases import FloatArray
    from perfatlas.studies.fleet_plans.study import Machine, PlanStudy, Workload

    Cells = Mapping[str, Any]
    # From a command to its function from columns of questions to columns of answers
    Tables = Callable[[str], Callable[[dict[str, Any], Sequence[int]], Mapping[str, Sequence[Any]]]]

RATE: Final = {"estimate": "output_tokens_per_s_per_gpu", "train": "tokens_per_s_per_gpu"}


@dataclass(frozen=True, kw_only=True)
class Priced:
    """Rates and power of machines."""

    rate_EKW: FloatArray  # Tokens/s of a GPU at full load; 0 where it cannot run the workload
    node_w_KW: FloatArray  # AC power of a busy GPU with its share of the node [W]
    idle_w_K: FloatArray  # Of an idle one [W]
    devices_K: tuple[int, ...]  # GPUs of a node
    rows: tuple[dict[str, Any], ...] = ()  # By machine and workload: rate, power, plan, or reason
    tiers: tuple[str, ...] = ()


def priced_machines(study: PlanStudy, tables: Tables) -> Priced:
    """Return the rate and power of each machine for each workload.

    Raises:
        InfeasibleError: No machine can run a workload.
        InvalidSpecError: The power of a machine is neither known nor given.
    """
    shape = (len(study.machines), len(study.workloads))
    rate_EKW, node_w_KW, idle_w_K = np.zeros((3, *shape)), np.zeros(shape), np.zeros(shape[0])
    nodes = [resolve_system(machine.system).node for machine in study.machines]
    rows, tiers = [], []
    for k, machine in enumerate(study.machines):
        idle_w_K[k], devices = _idle_w(machine), nodes[k].devices
        for w, workload in enumerate(study.workloads):
            row: dict[str, Any] = {"system": machine.label, "workload": workload.name}
            rows.append(row)
            fields = {**workload.scenario, **machine.scenario, "system": machine.system}
            try:
                cells = _answered(workload.verb, fields, tables, row)
            except PerfatlasError as problem:
                row["reason"] = str(problem)
                continue
            trains = workload.verb == "train"
            if trains:
                row["goodput"] = _goodput(study, machine, workload, cells["gpus"], devices)
            metric = RATE["train" if trains else "estimate"]
            for end, suffix in enumerate(("", "_low", "_high")):
                rate = float(cells[f"{metric}{suffix}"]) * row.get("goodput", 1.0)
                rate_EKW[end, k, w] = row[f"tokens_per_s_per_gpu{suffix}"] = rate
            watts = machine.power_w or (cells.get("node_power_w") or math.nan) / devices
            if math.isnan(watts + idle_w_K[k]):
                raise InvalidSpecError(
                    f"machine {machine.label}: the power of its nodes is not known; set power and"
                    " idle_power [W per GPU with its share of the node]"
                )
            node_w_KW[k, w] = row["gpu_power_w"] = max(watts, idle_w_K[k])
            tiers.append(str(cells.get("tier") or ""))
    for w, workload in enumerate(study.workloads):
        if not rate_EKW[0, :, w].any():
            reasons = [
                f"{row['system']}: {row['reason']}"
                for row in rows
                if row["workload"] == workload.name
            ]
            raise InfeasibleError(
                f"no machine can run workload {workload.name}: {'; '.join(reasons)}"
            )
    return Priced(
        rate_EKW=rate_EKW,
        node_w_KW=node_w_KW,
        idle_w_K=np.nan_to_num(idle_w_K),  # unknown only where nothing runs
        devices_K=tuple(node.devices for node in nodes),
        rows=tuple(rows),
        tiers=tuple(tiers),
    )


def _idle_w(machine: Machine) -> float:
    """Return the AC power of an idle GPU with its share of the node, NaN if unknown [W]."""
    if machine.idle_power_w is not None:
        return machine.idle_power_w
    system = resolve_system(machine.system)
    return node_power(system.node).node_w(board_energy(system.device).on_w) / system.node.devices


def _answered(verb: str, fields: dict[str, Any], tables: Tables, row: dict[str, Any]) -> Cells:
    """Return the results of a scenario, of the best plan for `search`; add its fields to a row.

    Raises:
        PerfatlasError: It cannot be answered.
    """
    if verb == "search":
        fields = deployments.best_plan_fields(deployments.read_search(fields))
    row["plan"] = ", ".join(f"{name} {value}" for name, value in fields.items() if name != "system")
    columns = {name: [value] for name, value in fields.items()}
    answers = tables("train" if verb == "train" else "estimate")(columns, [0])
    cells = {name: values[0] for name, values in answers.items()}
    if cells.get("error_code"):
        raise InvalidSpecError(str(cells["error"]))
    return cells


def _goodput(
    study: PlanStudy, machine: Machine, workload: Workload, gpus: float, devices: int
) -> float:
    """Return the goodput of a job of a workload at its best checkpoint interval.

    Limits: At the mean rate of failures over as many months as the plan has, from new nodes on.
    """
    age_s_A: FloatArray = MONTH_S * np.arange(study.months, dtype=np.float64)
    failures = node_failures(machine.fleet or study.fleet, devices, age_s_A, MONTH_S)
    if not (rate_per_s := float(failures.rate_per_s_A.mean())):
        return 1.0
    return float(
        best_goodput(
            gpus,
            devices=devices,
            node_mtbf_s=1.0 / rate_per_s,
            write_s=workload.checkpoint_write_s or 0.0,
            restart_s=workload.restart_s or 0.0,
        )
    )
