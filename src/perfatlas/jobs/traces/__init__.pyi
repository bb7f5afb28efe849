from .failure_table import (
    read_failures as read_failures,
)
from .formats import (
    read_jobs as read_jobs,
    runs_as_jobs as runs_as_jobs,
)
from .reading import (
    Trace as Trace,
)
