"""Files written so that they are whole or not there; knows nothing of what is in them."""

from __future__ import annotations

from perfatlas.files.atomic import atomic_file, check_writable, write_atomic
from perfatlas.files.folders import user_folder
from perfatlas.files.hashes import content_hash, file_hash
from perfatlas.files.mapped_arrays import GrowingColumn, roomy
from perfatlas.files.tables import Table, read_table, table_format, unpacked_name, write_table
from perfatlas.files.text import open_text
from perfatlas.files.toml_file import read_toml
from perfatlas.files.toml_text import format_toml

__all__ = [
    "GrowingColumn",
    "Table",
    "atomic_file",
    "check_writable",
    "content_hash",
    "file_hash",
    "format_toml",
    "open_text",
    "read_table",
    "read_toml",
    "roomy",
    "table_format",
    "unpacked_name",
    "user_folder",
    "write_atomic",
    "write_table",
]
