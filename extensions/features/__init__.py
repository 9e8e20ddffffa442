"""Features, taken by each owner from its own records before anything is shared."""

from extensions.features.cache import Cache
from extensions.features.extraction import extract
from extensions.features.extractor import Extractor, find

__all__ = ["Cache", "Extractor", "extract", "find"]
