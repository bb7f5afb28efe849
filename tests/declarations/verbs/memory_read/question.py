"""What `memory_read` is asked, read and checked."""

from __future__ import annotations

from perfatlas.verbs.memory_read.groups import ReadSize

from perfatlas.scenario.fields import Asked
from perfatlas.vocabulary.fields import SystemChoice


class ReadQuestion(Asked, ReadSize, SystemChoice):
    """One read from the memory of one device."""
