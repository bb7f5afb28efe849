"""Content hashes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from perfatlas.files.regular import check_regular


def content_hash(content: str | bytes) -> str:
    """Return "sha256:" and the hex digest of a text (as UTF-8) or bytes.

    Example:
        >>> from perfatlas.files import content_hash
        >>> content_hash("tp = 8")[:15]
        'sha256:adebcf64'
    """
    data = content.encode() if isinstance(content, str) else content
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def file_hash(path: str | Path) -> str:
    """Return "sha256:" and the hex digest of a file, read in chunks."""
    check_regular(path)
    with Path(path).open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"
