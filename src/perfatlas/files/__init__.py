"""Atomic writing of files, and reading with field-by-field validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfatlas.interface import lazy_names

if TYPE_CHECKING:
    from perfatlas.files.atomic import (
        atomic_file as atomic_file,
        check_writable as check_writable,
        write_atomic as write_atomic,
    )
    from perfatlas.files.columns import flag_column as flag_column, number_column as number_column
    from perfatlas.files.dictionary_cells import (
        DictionaryCells as DictionaryCells,
        joined_dictionaries as joined_dictionaries,
    )
    from perfatlas.files.fields import (
        Array as Array,
        Duration as Duration,
        Field as Field,
        Flag as Flag,
        Named as Named,
        Number as Number,
        Reader as Reader,
        Record as Record,
        Text as Text,
        Whole as Whole,
        known_keys as known_keys,
        read_fields as read_fields,
        refuse_all as refuse_all,
        sub_table as sub_table,
        sub_tables as sub_tables,
    )
    from perfatlas.files.folders import (
        home_variable as home_variable,
        make_folder as make_folder,
        user_folder as user_folder,
    )
    from perfatlas.files.hashes import content_hash as content_hash, file_hash as file_hash
    from perfatlas.files.mapped_arrays import (
        GrowingColumn as GrowingColumn,
        large_array as large_array,
        release_pages as release_pages,
    )
    from perfatlas.files.number_cells import NumberCells as NumberCells
    from perfatlas.files.parquet import arrow_column as arrow_column, plain_cells as plain_cells
    from perfatlas.files.regular import (
        check_regular as check_regular,
        exists as exists,
        is_file as is_file,
    )
    from perfatlas.files.shipped import (
        shipped_names as shipped_names,
        shipped_table as shipped_table,
        shipped_text as shipped_text,
    )
    from perfatlas.files.sourced import (
        Entry as Entry,
        Value as Value,
        default_source as default_source,
        read_entry as read_entry,
    )
    from perfatlas.files.table_source import TableSource as TableSource
    from perfatlas.files.table_text import separator_hint as separator_hint
    from perfatlas.files.tables import (
        Table as Table,
        read_table as read_table,
        scan_source as scan_source,
        table_format as table_format,
        unpacked_name as unpacked_name,
        write_blocks as write_blocks,
        write_table as write_table,
    )
    from perfatlas.files.text import open_text as open_text
    from perfatlas.files.toml_file import read_toml as read_toml
    from perfatlas.files.toml_text import format_toml as format_toml
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
