from .producers import (
    producers_hash as producers_hash,
)
from .residuals import (
    Correction as Correction,
    Residuals as Residuals,
    cached_residuals as cached_residuals,
    correct as correct,
    no_residuals as no_residuals,
    number_groups as number_groups,
    residuals_by_distance as residuals_by_distance,
    with_rows_of as with_rows_of,
)
