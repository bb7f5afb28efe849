from .answer import (
    Simulation as Simulation,
    simulate as simulate,
    split_fields as split_fields,
)
from .page import (
    SimulatedRun as SimulatedRun,
    traffic_page as traffic_page,
)
from .request_rate import (
    max_request_rate as max_request_rate,
)
from .required_replicas import (
    required_replicas as required_replicas,
)
