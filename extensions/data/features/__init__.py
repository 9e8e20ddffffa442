"""Features, taken by each owner from its own records before anything is shared."""

from extensions.data.features.cache import Cache
from extensions.data.features.default import RAW, default_features
from extensions.data.features.extraction import extract
from extensions.data.features.extractor import Extractor
from extensions.data.features.registry import find, names_file, names_function

__all__ = [
    "RAW",
    "Cache",
    "Extractor",
    "default_features",
    "extract",
    "find",
    "names_file",
    "names_function",
]
