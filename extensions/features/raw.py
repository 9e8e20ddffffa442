"""Records as they are: pixels, or the columns of a table."""

from extensions.data.records import Raw
from extensions.errors import ArgumentError
from extensions.features.extractor import Extractor


def make(argument: str | None) -> Extractor:
    """Returns the extractor that flattens images and leaves tables alone."""
    if argument is not None:
        raise ArgumentError("features", f"raw:{argument}", "raw, without an argument")
    return Extractor(
        name="raw", kinds=("images", "table"), function=_flat, identity=None, batch=1 << 20
    )


def _flat(x: Raw) -> Raw:
    return x.reshape(len(x), -1)
