"""A public schema of tables: what columns mean, and what they may hold, said apart from records."""

from extensions.data.schema.cells import SEPARATORS, Cells, Separator, Table, label_of, number_of
from extensions.data.schema.columns import Category, Number
from extensions.data.schema.draft import NOTICE, draft, drafted
from extensions.data.schema.encoding import encode_table
from extensions.data.schema.schema import Schema, Target, Unit, read_schema, to_toml

__all__ = [
    "NOTICE",
    "SEPARATORS",
    "Category",
    "Cells",
    "Number",
    "Schema",
    "Separator",
    "Table",
    "Target",
    "Unit",
    "draft",
    "drafted",
    "encode_table",
    "label_of",
    "number_of",
    "read_schema",
    "to_toml",
]
