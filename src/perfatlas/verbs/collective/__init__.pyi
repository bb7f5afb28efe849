from .answer import (
    collective as collective,
    collective_columns as collective_columns,
)
