"""Rows and value types shared by the verbs on clusters."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from perfatlas.vocabulary.fields.conditions import NotSet
from perfatlas.vocabulary.fields.numbers import Number
from perfatlas.vocabulary.fields.rows import Catalog, Row, Text, fields_of
from perfatlas.vocabulary.fields.scenario import Plan
from perfatlas.vocabulary.fields.subject import Subject

MAX_SEED: Final = 2**31
Duration = Annotated[float, Number(unit="s", at_least=1e-6, at_most=1e12)]
Pause = Annotated[float, Number(unit="s", at_least=0.0, at_most=1e12)]
Share = Annotated[float, Number(unit="fraction", above=0.0, at_most=1.0)]
Seed = Annotated[int, Number(at_least=0, at_most=MAX_SEED)]
FLEETS: Final = ("perfatlas.reliability.fleet.model:shipped_fleets",)
FleetName = Annotated[str, Text(), Catalog("fleets", FLEETS)]

SEED: Final = Row("Seed of random draws.", elsewhere=("random_seed", "rng_seed"))
FLEET: Final = Row(
    "Fleet with node failure and repair rates: a TOML file, llama3 or rsc1.",
    elsewhere=("cluster", "fleet_file", "fleet_name"),
    common=True,
)
GPUS: Final = replace(
    fields_of(Plan)["gpus"].row,
    text="GPUs of the job.",
    default="with fleet, all units except spares",
)
SYSTEM: Final = replace(
    fields_of(Subject)["system"].row, needs=None, default="", pools=(), by_replica=False
)
NO_FLEET: Final = NotSet("fleet", "describes how nodes fail and are repaired")
NODE_MTBF: Final = Row(
    "Mean time between failures of one node.",
    needs=NO_FLEET,
    elsewhere=("mtbf_node_s", "node_mttf_s", "mttf_node_s", "node_mtbf"),
    common=True,
)
NODE_REPAIR: Final = Row(
    "Mean time to repair a failed node.",
    needs=NO_FLEET,
    elsewhere=("mttr_s", "node_mttr_s", "repair_time_s"),
    common=True,
)
DETECTION: Final = Row(
    "Time until a failure is detected.", elsewhere=("detection_time_s", "time_to_detect_s")
)
GPUS_PER_NODE: Final = Row(
    "GPUs per node.",
    elsewhere=("num_gpus_per_node", "ngpus_per_node", "gpus_per_server"),
    common=True,
)
SPARES: Final = Row(
    "Spare nodes of the job.", elsewhere=("spare_nodes", "num_spares", "standby_nodes"), common=True
)
RESTART: Final = Row(
    "Restart time from detection to resumed work; a failure during restart starts it over.",
    elsewhere=("restart_time_s", "recovery_time_s", "restart_overhead_s"),
    common=True,
)
CHECKPOINT_INTERVAL: Final = Row(
    "Work time between checkpoints.",
    elsewhere=("checkpoint_every_s", "checkpoint_period_s", "save_interval_s"),
    common=True,
)
