"""What the parties of a pool are copies of: a process that has imported what they need."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from crypten_ext.compat import check_installed
from crypten_ext.here import ADDRESS
from crypten_ext.processes.worker import PROGRAM, environment_of
from extensions.runs.processes import Template, shared_template

_MODULES = (PROGRAM, "crypten_ext.registry")


@contextmanager
def template_of(
    parties: int, *, env: Mapping[str, str] | None = None, modules: Sequence[str] = ()
) -> Iterator[Template | None]:
    """Yields what `parties` parties are copies of, which imports from now on; None but on Linux.

    All blocks that are open at once with equal arguments share it, and so do pools: one that opens
    inside the block finds imported what the block began to import. The address of a dealer may
    differ, and the number of parties as far as each has as many threads.

    Args:
        parties: Their number.
        env: Environment variables for the parties, over those of this process.
        modules: That tasks will need, beside CrypTen.

    Raises:
        MissingExtraError: torch or CrypTen is not installed.
    """
    check_installed()
    if sys.platform != "linux":
        yield None
        return
    common = environment_of(parties, "", env or {})
    early = {name: value for name, value in (env or {}).items() if name != ADDRESS}
    kind = (common["OMP_NUM_THREADS"], frozenset(early.items()))
    with shared_template(*_MODULES, *modules, env=common, key=kind) as template:
        yield template
