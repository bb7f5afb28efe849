from .catalog import (
    ImportOptions as ImportOptions,
    import_logs as import_logs,
)
from .sacct import (
    read_sacct as read_sacct,
)
from .sacct_json import (
    read_sacct_json as read_sacct_json,
)
from .xid_log import (
    COALESCE_S as COALESCE_S,
)
