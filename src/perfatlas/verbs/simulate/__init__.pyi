from .answer import (
    Simulation as Simulation,
    simulate as simulate,
)
from .page import (
    SimulatedRun as SimulatedRun,
    traffic_page as traffic_page,
)
from .question import (
    split_fields as split_fields,
)
from .replica_count import (
    required_replicas as required_replicas,
)
from .request_rate import (
    max_request_rate as max_request_rate,
)
