"""Which prepared files this user has used, so that a copy of one is refused like the file."""

from extensions.runs.durable import enter, is_entered

_LIST = "used-material"


def spend(name: str) -> bool:
    """The name is on the list, and on disk, when this returns; False if it was there before."""
    return enter(_LIST, name)


def is_spent(name: str) -> bool:
    """Whether the name is on the list."""
    return is_entered(_LIST, name)
