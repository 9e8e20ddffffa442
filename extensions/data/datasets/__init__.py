"""Data sets for `pea train`, cut into one file for each party."""

from extensions.data.datasets.files import (
    in_memory,
    read_party_file,
    write_parts,
    write_private,
    write_records,
)
from extensions.data.datasets.folders import find_folder
from extensions.data.datasets.partition import split_among
from extensions.data.datasets.records import (
    Labels,
    Recipe,
    Split,
    bounded_rows,
    classes_in,
    columns_in,
    common_facts,
    has_labels,
    no_labels,
)
from extensions.data.datasets.sources import load, load_own, load_raw, read_unlabelled
from extensions.data.datasets.tables import (
    Columns,
    is_named_as_records,
    is_table,
    read_cells,
    separator_of,
)

__all__ = [
    "Columns",
    "Labels",
    "Recipe",
    "Split",
    "bounded_rows",
    "classes_in",
    "columns_in",
    "common_facts",
    "find_folder",
    "has_labels",
    "in_memory",
    "is_named_as_records",
    "is_table",
    "load",
    "load_own",
    "load_raw",
    "no_labels",
    "read_cells",
    "read_party_file",
    "read_unlabelled",
    "separator_of",
    "split_among",
    "write_parts",
    "write_private",
    "write_records",
]
