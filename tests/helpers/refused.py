"""What is refused: an error's code, argument and value, whatever its sentence is."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from extensions.errors import ArgumentError

ANY = object()


@contextmanager
def refused(
    argument: str,
    code: str,
    value: Any = ANY,
    kind: type[ArgumentError] = ArgumentError,
) -> Iterator[pytest.ExceptionInfo[ArgumentError]]:
    """In the block an argument is refused; yields what `pytest.raises` does.

    Args:
        argument: that the error names.
        code: of the error.
        value: that the error has; by default any.
        kind: of the error.
    """
    try:
        with pytest.raises(kind) as caught:
            yield caught
    except BaseException as error:
        error.add_note(f"It was to be refused: {argument}, {code}, {value!r}.")
        raise
    found = caught.value
    assert found.argument == argument, str(found)
    assert found.code == code, f"{found.code}: {found}"
    assert value is ANY or value is found.value or _alike(found.value, value), str(found)


def _alike(found: Any, value: Any) -> bool:
    return bool(found == value) or f"{found}" == f"{value}" == "nan"


def fields_of(error: BaseException) -> str:
    """What an error has in its fields, as another process is told it; else what it says."""
    if not isinstance(error, ArgumentError):
        return str(error)
    return f"{error.argument} = {error.value!r}: {error.code}. {error.hint}"
