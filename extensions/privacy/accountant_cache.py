"""What an accountant found: no process asks it again, nor do those that take it from there."""

import threading
from collections.abc import Callable, Hashable, Mapping

Answers = Mapping[Hashable, float]
"""Epsilons, by all that they depend on."""

_MOST = 1000
_found: dict[Hashable, float] = {}
_lock = threading.Lock()


def cached(question: Hashable, find: Callable[[], float]) -> float:
    """Returns the answer to a question, found at most once while it is remembered.

    The question is all that the answer depends on. An error is no answer.
    """
    known = _found.get(question)
    return known if known is not None else fill_cache({question: find()})[question]


def cached_answers() -> Answers:
    """Returns all that is remembered, for a process that trusts this one."""
    with _lock:
        return dict(_found)


def fill_cache(given: Answers) -> Answers:
    """Remembers answers of a trusted process, and returns them.

    Of a thousand, those that came first are forgotten.
    """
    with _lock:
        _found.update(given)
        for question in list(_found)[:-_MOST]:
            del _found[question]
    return given
