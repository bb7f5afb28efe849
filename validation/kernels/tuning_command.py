"""`python -m validation tuning`."""

from __future__ import annotations

from typing import Annotated, Any, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.quantities import InvalidSpecError
from validation.runs.shared_data import missing_data, shared_folder
from validation.scoring import print_results

COLUMNS: Final = {
    "constants": {"of": "fitted to", "constant": "constant", "value": "value"},
    "choices": {
        "device": "device",
        "format": "format",
        "left_out": "left out",
        "keys": "shapes",
        "within_5": "shipped within 5% of own best",
        "designs_within_5": "designs within 5%",
        "median_ratio": "median",
        "median_rank": "median rank",
        "better_than_default": "beats the default",
    },
    "layers": {
        "device": "device",
        "source": "source",
        "setting": "setting",
        "left_out": "left out",
        "rows": "rows",
        "median_ratio": "predicted/measured",
        "inside": "inside",
    },
    "own": {
        "kernel": "kernel",
        "shape": "shape",
        "ratio": "predicted/measured",
        "inside": "inside",
    },
    "winners": {
        "kernel": "kernel",
        "device": "device",
        "rows": "rows",
        "median_ratio": "predicted/measured",
        "median_error": "median error",
        "inside": "inside",
        "tiles": "tiles in the space",
        "tile_kept": "tile among 16",
    },
    "exhaustive": {
        "kernel": "kernel",
        "device": "left out",
        "designs": "designs",
        "first_1": "regret of the first",
        "first_8": "best of 8",
        "first_16": "best of 16",
        "random_16": "16 at random",
        "searched_16": "16 measured in turn",
        "searched_50": "50 measured in turn",
    },
}
TITLES: Final = {
    "constants": "constants of main loops",
    "choices": "configurations that vLLM and SGLang ship, by predicted time",
    "layers": "measured layers of experts in Triton",
    "own": "kernels of perfatlas on one H100, of no fit",
    "winners": "winners of AITER, which are not Triton",
    "exhaustive": "exhaustive tunings without tensor cores, from the times of other devices",
}


def tuning(*, fit: Annotated[bool, SWITCH] = False, json: Annotated[bool, SWITCH] = False) -> int:
    """Score the tuner of kernels on devices left out of its fit.

    Args:
        fit: Fit the constants of data/tuning.toml again, and print them; takes minutes.
        json: Print one JSON object.
    """
    from validation.kernels.tuning import TABLE, fitted_constants, validate_tuning

    path = shared_folder() / TABLE
    if not path.is_file():
        raise InvalidSpecError(missing_data(path))
    results: dict[str, Any] = {"constants": fitted_constants()} if fit else validate_tuning()
    columns = {part: shown for part, shown in COLUMNS.items() if part in results}
    return print_results("tuning", results, columns, TITLES, json=json)
