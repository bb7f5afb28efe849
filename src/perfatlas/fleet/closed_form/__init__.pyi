from .asynchronous import (
    asynchronous_efficiency as asynchronous_efficiency,
    snapshots_in_flight as snapshots_in_flight,
)
from .corruption import (
    VerifiedPattern as VerifiedPattern,
    verified_time_s as verified_time_s,
)
from .estimates import (
    CHECKPOINT_BYTES_PER_PARAMETER as CHECKPOINT_BYTES_PER_PARAMETER,
    linear_goodput as linear_goodput,
    meta_ettr as meta_ettr,
    saxena_availability as saxena_availability,
)
from .expected import (
    Expected as Expected,
    best_interval_s as best_interval_s,
    expected_goodput as expected_goodput,
    known_mtti_s as known_mtti_s,
    likely_interval_s as likely_interval_s,
    restart_remark as restart_remark,
)
from .intervals import (
    daly_higher_order_s as daly_higher_order_s,
    saxena_interval_s as saxena_interval_s,
    young_interval_s as young_interval_s,
)
from .late_detection import (
    kept_for as kept_for,
    late_detection_remarks as late_detection_remarks,
)
from .maintenance import (
    Plain as Plain,
    maintained_efficiency as maintained_efficiency,
)
from .multilevel import (
    multilevel_efficiency as multilevel_efficiency,
)
from .redundancy import (
    at_least as at_least,
    blast_usable as blast_usable,
    replicas_up as replicas_up,
    spare_replicas as spare_replicas,
    usable_share as usable_share,
)
from .renewal import (
    FASTER as FASTER,
    LITTLE as LITTLE,
    optimal_interval_s as optimal_interval_s,
    renewal_efficiency as renewal_efficiency,
    what_is_lost as what_is_lost,
)
from .spares import (
    birth_death_blocked as birth_death_blocked,
    blocked_probability as blocked_probability,
    failed_nodes as failed_nodes,
    spares_for as spares_for,
)
from .stragglers import (
    largest_normal as largest_normal,
    slowest_step as slowest_step,
)
