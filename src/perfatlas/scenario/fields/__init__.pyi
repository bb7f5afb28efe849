from .answered_rows import (
    Answered as Answered,
    answer_columns as answer_columns,
)
from .cache_tiers import (
    TierSizes as TierSizes,
    tier_results as tier_results,
    tier_sizes as tier_sizes,
)
from .input_fields import (
    InputFields as InputFields,
)
from .operation import (
    shared_fields as shared_fields,
)
from .replica_kinds import (
    ReplicaKind as ReplicaKind,
    kind_scenarios as kind_scenarios,
)
from .traffic import (
    TRAFFIC_NAMES as TRAFFIC_NAMES,
    Traffic as Traffic,
    parse_traffic as parse_traffic,
)
from .unused import (
    no_effect_sentence as no_effect_sentence,
    refuse_unused as refuse_unused,
)
from .vocabulary import (
    FIELD_NAMES as FIELD_NAMES,
    Scenario as Scenario,
    parse_scenario as parse_scenario,
)
