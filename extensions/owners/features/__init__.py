"""Features, taken by each owner from its own records before anything is shared."""

from extensions.owners.features.cache import Cache
from extensions.owners.features.extraction import extract
from extensions.owners.features.extractor import Extractor
from extensions.owners.features.registry import find

__all__ = ["Cache", "Extractor", "extract", "find"]
