from .json_stream import (
    json_lines as json_lines,
    stream_items as stream_items,
)
from .line_tally import (
    FileCounts as FileCounts,
    Tally as Tally,
    reasons as reasons,
)
from .lines import (
    Line as Line,
    LineGroup as LineGroup,
    LogFile as LogFile,
)
from .log_position import (
    refuse as refuse,
)
from .stamps import (
    Clock as Clock,
    checked_s as checked_s,
    epoch_seconds as epoch_seconds,
    iso_seconds as iso_seconds,
    moment_of as moment_of,
    zone_of as zone_of,
)
