"""What `memory_read` is asked, read and checked."""

from __future__ import annotations

from perfatlas.verbs.memory_read.groups import ReadSize

from perfatlas.scenario.fields import InputFields
from perfatlas.vocabulary.fields import SystemChoice


class ReadQuestion(InputFields, ReadSize, SystemChoice):
    """One read from the memory of one device."""
