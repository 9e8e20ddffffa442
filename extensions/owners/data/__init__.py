"""Data sets for `pea train`, cut into one file for each party."""

from extensions.owners.data.files import (
    in_memory,
    read_classes,
    read_party_file,
    read_raw_file,
    write_parts,
    write_party_files,
    write_private,
    write_records,
)
from extensions.owners.data.folders import VARIABLE, find_folder
from extensions.owners.data.mnist import MNIST_FILES
from extensions.owners.data.partition import split_among
from extensions.owners.data.records import (
    Labels,
    Public,
    Raw,
    Recipe,
    Split,
    kind_of,
)
from extensions.owners.data.rows import bounded_rows, standard_rows
from extensions.owners.data.sources import (
    EMBEDDED,
    Source,
    load,
    load_own,
    load_raw,
    raw_rows,
    settings_of,
)
from extensions.owners.data.tables import (
    Columns,
    is_named_as_records,
    is_table,
    read_cells,
    separator_of,
)
from extensions.owners.data.unlabelled import Unlabelled, read_unlabelled

__all__ = [
    "EMBEDDED",
    "MNIST_FILES",
    "VARIABLE",
    "Columns",
    "Labels",
    "Public",
    "Raw",
    "Recipe",
    "Source",
    "Split",
    "Unlabelled",
    "bounded_rows",
    "find_folder",
    "in_memory",
    "is_named_as_records",
    "is_table",
    "kind_of",
    "load",
    "load_own",
    "load_raw",
    "raw_rows",
    "read_cells",
    "read_classes",
    "read_party_file",
    "read_raw_file",
    "read_unlabelled",
    "separator_of",
    "settings_of",
    "split_among",
    "standard_rows",
    "write_parts",
    "write_party_files",
    "write_private",
    "write_records",
]
