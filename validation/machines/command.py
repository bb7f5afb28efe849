"""`python -m validation machines`, `amd`, `tpu` and `accelerators`."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.quantities import InvalidSpecError
from validation.runs.shared_data import missing_data, shared_folder
from validation.scoring import print_results

FOLDER: Final = "machines"
COLUMNS: Final = {
    "forms": {
        "form": "",
        "models": "models",
        "constant_us": "constant [µs]",
        "median_error": "median",
        "inside_90": "in 90%",
        "interval_score": "score",
    },
    "models": {
        "model": "",
        "measured_s": "published [s]",
        "scheduled_s": "schedule [s]",
        "predicted_s": "predicted [s]",
        "error": "error",
        "low_s": "low [s]",
        "high_s": "high [s]",
        "inside_90": "in 90%",
    },
    "limits": {
        "machine": "",
        "model": "",
        "measured_s": "published [s]",
        "lower_limit_s": "lower limit [s]",
    },
    "power": {
        "machine": "",
        "full_load_w": "full load [W]",
        "least_w": "published [W]",
        "most_w": "to [W]",
    },
    "refused": {
        "machine": "",
        "model": "",
        "published_tokens_per_s": "tokens/s",
        "reason": "",
    },
}
TITLES: Final = {
    "forms": "decode steps of Groq TSP v1, network left out of the fit",
    "models": "each model, with constant and interval of the other networks",
    "limits": "lower limits beside published decode steps",
    "power": "power of full load beside published power, nothing fitted to it",
    "refused": "published speeds that are not compared",
}
AMD_COLUMNS: Final = {
    "products": {
        "cell": "",
        "band": "rows m",
        "rows": "shapes",
        "median_error": "median",
        "p90_error": "p90",
    },
    "experts": {
        "cell": "",
        "band": "predicted by",
        "rows": "shapes",
        "median_error": "median",
        "p90_error": "p90",
    },
    "services": {
        "device": "",
        "source": "source",
        "model": "model",
        "runs": "runs",
        "median_error": "median",
        "error": "signed",
        "inside_90": "in 90%",
    },
    "devices": {
        "device": "",
        "metric": "",
        "runs": "runs",
        "median_error": "median",
        "error": "signed",
        "inside_90": "in 90%",
        "rescaled_error": "rescaled",
    },
}
AMD_TITLES: Final = {
    "products": "products of AMD GPUs, network left out of the fit",
    "experts": "experts of MI355X, width of the network left out of the fit",
    "services": "services on AMD GPUs, nothing fitted to them",
    "devices": "the same by device, and with one factor of the other models",
}

_ERRORS: Final = {
    "runs": "runs",
    "median_error": "median",
    "error": "signed",
    "inside_90": "in 90%",
    "rescaled_error": "rescaled",
    "roofline_share": "of roofline",
    "least_share": "least",
    "most_share": "most",
}
ACCELERATOR_COLUMNS: Final = {
    "fits": {
        "family": "",
        "runs": "runs",
        "networks": "networks",
        "speed": "speed in prompts",
        "kernels": "of kernels",
        "point_s": "point [s]",
    },
    "machines": {"machine": "", "result": "result", **_ERRORS},
}
ACCELERATOR_TITLES: Final = {
    "fits": "speeds of units in prompts and of kernels, time of a synchronisation point, by family",
    "machines": "latencies of services, network left out, and measured shares of the roofline",
}

TPU_COLUMNS: Final = {
    "fits": {"left_out": "left out", "runs": "runs", "speed": "speed", "spread": "spread"},
    "generations": {
        "machine": "",
        "runs": "runs",
        "models": "models",
        "speed": "speed",
        "median_error": "median",
        "rescaled_error": "rescaled",
        "baseline_error": "constant MFU",
        "inside_90": "in 90%",
        "fits": "fit in memory",
    },
    "steps": {
        "machine": "",
        "model": "model",
        "format": "format",
        "chips": "chips",
        "slices": "slices",
        "measured_s": "published [s]",
        "predicted_s": "predicted [s]",
        "error": "error",
        "inside_90": "in 90%",
        "memory_bytes": "memory [bytes]",
        "capacity_bytes": "of device [bytes]",
    },
    "slices": {
        "machine": "",
        "model": "model",
        "from_slices": "from",
        "slices": "to",
        "measured_fall": "published",
        "predicted_fall": "predicted",
        "difference": "difference",
    },
    "services": {
        "model": "",
        "system": "system",
        "format": "format",
        "isl": "in",
        "osl": "out",
        "concurrency": "requests",
        "measured_tokens_per_s": "published",
        "predicted_tokens_per_s": "predicted",
        "error": "error",
        "inside_90": "in 90%",
    },
    "declined": {"model": "", "reason": ""},
}
TPU_TITLES: Final = {
    "fits": "speed of kernels over their tiles and spread of slices, fitted to all other models",
    "generations": "training steps on TPUs, model left out, and a constant MFU of the generation",
    "steps": "each step, with numbers and interval of the other models",
    "slices": "fall of MFU with slices [points]",
    "services": "output tokens/s of a chip, overhead of experts from other models",
    "declined": "published runs that are not compared",
}


def machines(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare decode steps of statically scheduled machines with published speeds.

    Args:
        json: Print one JSON object.
    """
    from validation.machines import validate_machines

    return print_results("machines", validate_machines(), COLUMNS, TITLES, json=json)


def amd(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare products and services of AMD GPUs with published speeds.

    Args:
        json: Print one JSON object.
    """
    from validation.machines import validate_amd, validate_services

    _require_data()
    from validation.machines.amd_experts import expert_errors

    results = {
        "products": validate_amd(),
        "experts": expert_errors(),
        **validate_services(),
    }
    return print_results("amd", results, AMD_COLUMNS, AMD_TITLES, json=json)


def tpu(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare training steps and services on TPUs with published speeds.

    Args:
        json: Print one JSON object.
    """
    from validation.machines import validate_tpu

    _require_data()
    return print_results("tpu", validate_tpu(), TPU_COLUMNS, TPU_TITLES, json=json)


def accelerators(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare services on Gaudi, Trainium and Inferentia with published speeds.

    Args:
        json: Print one JSON object.
    """
    from validation.machines import validate_accelerators

    _require_data()
    found = validate_accelerators()
    return print_results("accelerators", found, ACCELERATOR_COLUMNS, ACCELERATOR_TITLES, json=json)


def _require_data() -> None:
    folder = shared_folder() / FOLDER
    if not folder.is_dir():
        raise InvalidSpecError(missing_data(folder))
