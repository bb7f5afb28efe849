from .contention import (
    contended_rate as contended_rate,
    exposed_beside as exposed_beside,
    exposed_in_tiles as exposed_in_tiles,
)
from .streams import (
    ON_START as ON_START,
    Exposed as Exposed,
    Streams as Streams,
    exposed_communication as exposed_communication,
)
