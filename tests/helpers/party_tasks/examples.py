"""Examples of the pages of the API, at each of CrypTen's parties."""

from crypten_ext.processes.worker import Context
from tests.helpers import examples
from tests.helpers.party_tasks.protocols import session


def failures(context: Context, *, page: str) -> str:
    """Returns what went wrong in a page's examples."""
    with session(frac_bits=16):
        return examples.failures(page)
