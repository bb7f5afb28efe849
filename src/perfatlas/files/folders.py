"""Where a user's own files live: XDG folders, or one folder named by PERFATLAS_HOME."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

FolderKind = Literal["config", "data", "cache", "state"]


def user_folder(kind: FolderKind) -> Path:
    """Return the user's folder of a kind; it is not created.

    Args:
        kind: config, data, cache or state, as the XDG base directories name them.

    Returns:
        `$PERFATLAS_HOME/<kind>` where that is set, else the platform's folder for perfatlas.

    Example:
        >>> import os
        >>> from perfatlas.files import user_folder
        >>> os.environ["PERFATLAS_HOME"] = "/srv/atlas"
        >>> user_folder("cache").as_posix()
        '/srv/atlas/cache'
        >>> del os.environ["PERFATLAS_HOME"]
    """
    home = os.environ.get("PERFATLAS_HOME")
    if home:
        return Path(home) / kind
    import platformdirs

    folders = platformdirs.PlatformDirs("perfatlas", appauthor=False)
    path: Path = getattr(folders, f"user_{kind}_path")
    return path
