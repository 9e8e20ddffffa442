"""A public schema of tables: what columns mean, and what they may hold, said apart from records."""

from extensions.owners.schema.cells import Cells, Table, is_missing, label_of
from extensions.owners.schema.columns import Category, Column, Number
from extensions.owners.schema.document import read_schema, to_toml
from extensions.owners.schema.draft import NOTICE, drafted
from extensions.owners.schema.encoding import Encoded, encode_features, encode_table
from extensions.owners.schema.schema import Schema, Target, Unit

__all__ = [
    "NOTICE",
    "Category",
    "Cells",
    "Column",
    "Encoded",
    "Number",
    "Schema",
    "Table",
    "Target",
    "Unit",
    "drafted",
    "encode_features",
    "encode_table",
    "is_missing",
    "label_of",
    "read_schema",
    "to_toml",
]
