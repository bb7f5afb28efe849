from .breakdown import (
    breakdown_rows as breakdown_rows,
    calibration_rows as calibration_rows,
    match_versions as match_versions,
    single_evidence as single_evidence,
    single_row as single_row,
    tier_of as tier_of,
    used_matches as used_matches,
)
from .envelope import (
    Answer as Answer,
    Evidence as Evidence,
)
from .quantization import (
    CHOICES as CHOICES,
    SHARED as SHARED,
    quantization_of as quantization_of,
    quantizes_input as quantizes_input,
    said_of_quantization as said_of_quantization,
)
from .tiers import (
    MEASURED_STANDING as MEASURED_STANDING,
    joined_tiers as joined_tiers,
    require_tier as require_tier,
    tier_name as tier_name,
)
