"""Metrics of energy that `fleet schedule` alone reports."""

from __future__ import annotations

from typing import Final

from perfatlas.vocabulary.metrics import Metric, declare_metrics

COMMAND: Final = "fleet schedule"
POWER: Final = {"power_w": 600.0, "idle_power_w": 80.0}
PRICED: Final = {**POWER, "usd_per_kwh": 0.1}
RESULTS: Final = declare_metrics(
    Metric(
        name="cluster_energy_j",
        label="energy of the cluster",
        short="cluster energy",
        better="lower",
        asked_with=POWER,
        description="Energy of all GPU boards over the schedule; the five parts below sum to it.",
    ),
    Metric(
        name="work_energy_j",
        label="energy of work that is kept",
        short="energy of work",
        better="lower",
        asked_with=POWER,
        description="Part of `cluster_energy_j` spent on work that was not lost.",
    ),
    Metric(
        name="stalled_energy_j",
        label="energy of jobs that wait",
        short="stalled energy",
        better="lower",
        asked_with=POWER,
        description="Part of `cluster_energy_j` of jobs in detection, restart or wait for a node.",
    ),
    Metric(
        name="idle_gpu_energy_j",
        label="energy of GPUs without a job",
        short="idle GPU energy",
        better="lower",
        asked_with=POWER,
        description="Part of `cluster_energy_j` of GPUs without a job, draining nodes among them.",
    ),
    Metric(
        name="repair_energy_j",
        label="energy of nodes under repair",
        short="repair energy",
        better="lower",
        asked_with=POWER,
        description="Part of `cluster_energy_j` of nodes under repair, at `repair_power_w`.",
    ),
    Metric(
        name="cluster_electricity_usd",
        label="cost of electricity of the cluster",
        short="cluster bill",
        better="lower",
        asked_with=PRICED,
        description="Cost of `cluster_energy_j`, times the PUE.",
    ),
    Metric(
        name="lost_work_electricity_usd",
        label="electricity of lost work",
        short="bill of lost work",
        better="lower",
        asked_with=PRICED,
        description="Cost of `lost_work_energy_j`, times the PUE.",
    ),
    verbs=(COMMAND,),
)
