from .catalog import (
    format_names as format_names,
    import_logs as import_logs,
)
from .options import (
    COALESCE_S as COALESCE_S,
    ImportOptions as ImportOptions,
)
from .sacct import (
    read_sacct as read_sacct,
)
from .sacct_json import (
    read_sacct_json as read_sacct_json,
)
