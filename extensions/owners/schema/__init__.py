"""A public schema of tables: what columns mean, and what they may hold, said apart from records."""

from extensions.owners.schema.cells import (
    PANDAS_INDEX,
    SEPARATORS,
    Cells,
    Separator,
    Table,
    label_of,
    listed,
    number_of,
)
from extensions.owners.schema.columns import (
    Category,
    Column,
    Number,
    numbers_in,
    refuse,
    refuse_missing,
)
from extensions.owners.schema.document import read_schema, to_toml
from extensions.owners.schema.draft import NOTICE, Draft, draft
from extensions.owners.schema.encoding import Encoded, encode_features, encode_table
from extensions.owners.schema.schema import Schema, Target, Unit

__all__ = [
    "NOTICE",
    "PANDAS_INDEX",
    "SEPARATORS",
    "Category",
    "Cells",
    "Column",
    "Draft",
    "Encoded",
    "Number",
    "Schema",
    "Separator",
    "Table",
    "Target",
    "Unit",
    "draft",
    "encode_features",
    "encode_table",
    "label_of",
    "listed",
    "number_of",
    "numbers_in",
    "read_schema",
    "refuse",
    "refuse_missing",
    "to_toml",
]
