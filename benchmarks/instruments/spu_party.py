"""A party of SecretFlow SPU, for an interpreter that has the package `spu`.

It reads one JSON line a task, {"task": NAME, ...arguments}, and answers on the descriptor that
standard output was. SPU's log goes to the error output. `benchmarks.instruments.spu.SpuParties`
starts all.
"""

import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any


class SpuParty:
    """This party's end of the link; a subclass has a method for each task."""

    def __init__(self, rank: int, addresses: list[str]) -> None:
        from spu.libspu import link

        parties = link.Desc()
        for i, address in enumerate(addresses):
            parties.add_party(str(i), address)
        self.rank, self.parties = rank, len(addresses)
        self.link = link.create_brpc(parties, rank)

    def share(self, io: Any, runtime: Any, name: str, value: Any) -> None:
        """The runtime has this party's share of a value that the first party has."""
        from spu import libspu

        shares = []
        if self.rank == 0:
            made = io.make_shares(value, libspu.Visibility.VIS_SECRET)
            shares = [pickle.dumps(share).hex() for share in made]
        runtime.set_var(name, pickle.loads(bytes.fromhex(self.link.scatter(shares, 0))))

    def opened(self, io: Any, runtime: Any, name: str) -> Any:
        """Returns the opened variable as lists, to the first party; None to the others."""
        shares = self.link.gather(pickle.dumps(runtime.get_var(name)).hex(), 0)
        if self.rank:
            return None
        return io.reconstruct([pickle.loads(bytes.fromhex(share)) for share in shares]).tolist()


def compiled(function: Callable[..., Any], inputs: Mapping[str, Any]) -> Any:
    """Returns the programme of a function of JAX on secret inputs of those shapes."""
    from spu import libspu
    from spu.utils import frontend

    programme, _ = frontend.compile(
        frontend.Kind.JAX,
        function,
        tuple(inputs.values()),
        {},
        list(inputs),
        [libspu.Visibility.VIS_SECRET] * len(inputs),
        lambda outputs: [f"out {i}" for i in range(len(outputs))],
    )
    return programme


def timed(act: Callable[[], object], count: int) -> list[float]:
    """Returns the seconds from the end of one call to that of the next."""
    ends = [time.perf_counter()]
    for _ in range(count):
        act()
        ends.append(time.perf_counter())
    return [after - before for before, after in zip(ends[:-1], ends[1:], strict=True)]


def serve(kind: type[SpuParty]) -> None:
    """The party of ``python -m MODULE RANK ADDRESSES`` answers tasks until its input ends."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        party = kind(int(sys.argv[1]), sys.argv[2].split(","))
        for line in sys.stdin:
            arguments = json.loads(line)
            answer = getattr(party, arguments.pop("task"))(**arguments)
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
        os._exit(0)  # SPU's link would wait for the others, which have gone
