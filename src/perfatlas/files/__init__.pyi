from .atomic import (
    atomic_file as atomic_file,
    check_writable as check_writable,
    write_atomic as write_atomic,
)
from .columns import (
    flag_column as flag_column,
    number_column as number_column,
)
from .dictionary_cells import (
    DictionaryCells as DictionaryCells,
    joined_dictionaries as joined_dictionaries,
)
from .fields import (
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
from .folders import (
    home_variable as home_variable,
    make_folder as make_folder,
    user_folder as user_folder,
)
from .hashes import (
    content_hash as content_hash,
    file_hash as file_hash,
)
from .mapped_arrays import (
    GrowingColumn as GrowingColumn,
    large_array as large_array,
    release_pages as release_pages,
)
from .number_cells import (
    NumberCells as NumberCells,
)
from .parquet import (
    arrow_column as arrow_column,
    plain_cells as plain_cells,
)
from .regular import (
    check_regular as check_regular,
    exists as exists,
    is_file as is_file,
)
from .sourced import (
    Entry as Entry,
    Value as Value,
    default_source as default_source,
    read_entry as read_entry,
)
from .table_source import (
    TableSource as TableSource,
)
from .table_text import (
    separator_hint as separator_hint,
)
from .tables import (
    Table as Table,
    read_table as read_table,
    scan_source as scan_source,
    table_format as table_format,
    unpacked_name as unpacked_name,
    write_blocks as write_blocks,
    write_table as write_table,
)
from .text import (
    open_text as open_text,
)
from .toml_file import (
    read_toml as read_toml,
)
from .toml_text import (
    format_toml as format_toml,
)
