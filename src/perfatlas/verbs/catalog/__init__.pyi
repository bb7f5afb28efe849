from .facts import (
    CATALOGS as CATALOGS,
)
