"""Features, taken by each owner from its own records before anything is shared."""

from extensions.owners.features.cache import Cache
from extensions.owners.features.extraction import check_kind, extract, rows_of
from extensions.owners.features.extractor import Extractor
from extensions.owners.features.registry import find

__all__ = ["Cache", "Extractor", "check_kind", "extract", "find", "rows_of"]
