"""Features, taken by each owner from its own records before anything is shared."""

from extensions.owners.features.cache import Cache
from extensions.owners.features.extraction import check_kind, extract, rows_of
from extensions.owners.features.extractor import Extractor
from extensions.owners.features.registry import find, names_file, names_function
from extensions.owners.features.usual import RAW, usual

__all__ = [
    "RAW",
    "Cache",
    "Extractor",
    "check_kind",
    "extract",
    "find",
    "names_file",
    "names_function",
    "rows_of",
    "usual",
]
