"""A crowd of connections, for tests that take minutes."""

import pytest

MANY = pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.timeout(4 * 3600)], id="many")
"""A number of connections; one takes a hundredth of a second of a processor that does no more."""
