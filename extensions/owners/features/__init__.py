"""Features, taken by each owner from its own records before anything is shared."""

from extensions.owners.features.cache import Cache
from extensions.owners.features.extraction import extract
from extensions.owners.features.extractor import Extractor
from extensions.owners.features.registry import find, names_file, names_function
from extensions.owners.features.usual import RAW, usual

__all__ = ["RAW", "Cache", "Extractor", "extract", "find", "names_file", "names_function", "usual"]
