"""Atomic writing of files, and reading with field-by-field validation."""

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.files.arrow_buffers import load_arrow
    from perfatlas.files.atomic import atomic_file, check_writable, write_atomic
    from perfatlas.files.columns import flag_column, number_column
    from perfatlas.files.dictionary_cells import DictionaryCells, joined_dictionaries
    from perfatlas.files.fields import (
        Array, Duration, Field, Flag, Named, Number, Reader, Record, Text, Whole, known_keys,
        read_fields, refuse_all, sub_table, sub_tables,
    )
    from perfatlas.files.regular import (
        check_regular, content_hash, exists, file_hash, home_variable, is_file, make_folder,
        user_folder,
    )
    from perfatlas.files.mapped_arrays import GrowingColumn, large_array, release_pages, unreserved
    from perfatlas.files.number_cells import NumberCells
    from perfatlas.files.parquet import arrow_column, plain_cells
    from perfatlas.files.toml_file import (
        format_toml, read_toml, shipped_names, shipped_table, shipped_text,
    )
    from perfatlas.files.sourced import Entry, Value, default_source, read_entry
    from perfatlas.files.table_source import TableSource
    from perfatlas.files.text import open_text, separator_hint
    from perfatlas.files.tables import (
        Table, read_table, scan_source, table_format, unpacked_name, write_blocks, write_table,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
