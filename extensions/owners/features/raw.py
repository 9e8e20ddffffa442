"""Records as they are: pixels, or the columns of a table."""

from extensions.errors import ArgumentError
from extensions.owners.data.sources import raw_rows
from extensions.owners.features.extractor import Extractor


def make(argument: str | None) -> Extractor:
    """Returns the extractor of pixels as centred rows, and of a table's columns (`raw_rows`)."""
    if argument is not None:
        raise ArgumentError("features", f"raw:{argument}", "raw, without an argument")
    return Extractor(name="raw", kinds=("images", "table"), function=raw_rows, identity={})
