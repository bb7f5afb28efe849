"""`python -m validation kernel-errors`."""

from __future__ import annotations

from typing import Annotated, Final

from perfatlas.commands.flags import SWITCH
from perfatlas.quantities import InvalidSpecError
from validation.runs.shared_data import missing_data, shared_folder
from validation.scoring import print_results

SCORE: Final = {
    "rows": "rows",
    "bias": "bias",
    "median_error": "error",
    "inside_90": "in 90%",
    "rescaled_error": "rescaled",
}
COLUMNS: Final = {
    "topics": {"topic": "topic", **SCORE},
    "apart": {"topic": "topic", "apart": "chose", **SCORE},
    "batches": {"system": "GPU", "format": "format", "batch": "batch", **SCORE},
    "sources": {"topic": "topic", "kind": "", "source": "source", **SCORE},
    "settings": {"topic": "topic", "system": "GPU", "case": "case", **SCORE},
    "unanswered": {"reason": "not asked", "rows": "rows"},
}
TITLES: Final = {
    "topics": "by topic",
    "apart": "in no other table: rows that chose a rule or what is asked for them, and launches",
    "batches": "networks by batch",
    "sources": "by source",
    "settings": "by setting",
    "unanswered": "rows without a prediction",
}


def kernel_errors(*, json: Annotated[bool, SWITCH] = False) -> int:
    """Compare kernels known to be predicted badly with times measured elsewhere.

    Args:
        json: Print one JSON object.

    Raises:
        InvalidSpecError: The measured times are not there.
    """
    from validation.kernels.errors import FILE, validate_kernel_errors

    path = shared_folder() / FILE
    if not path.is_file():
        raise InvalidSpecError(missing_data(path))
    results = validate_kernel_errors()
    return print_results("kernel-errors", results, COLUMNS, TITLES, json=json)
