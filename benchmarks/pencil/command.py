"""The command `pencil`: what its training costs, or what Algorithm 3 tells one data owner."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

from sklearn.datasets import load_digits

from benchmarks.benchmark import FEDERATED, Benchmark, Result
from benchmarks.pencil.accuracy import CASES, accuracy_table
from benchmarks.pencil.reused_masks import Seen, descent, recovered, seen
from benchmarks.pencil.training import training_table
from benchmarks.tables import Table
from extensions.errors import ArgumentError
from extensions.options import Option
from extensions.ring.fixed_point import Integers
from extensions.rules import Whole, one_of

RING_BITS = 59
"""Of Pencil's plaintexts."""
FRAC_BITS = 25
PUBLISHED = {2: "2114 years", 4: "2.38e18 years", 8: "3.02e48 years"}
"""By masks, the "time to break" of Pencil's Table IX for 25 bits a scalar."""
NAME = "pencil-attack"


def steps_for(masks: int) -> int:
    """Returns how many steps the attack takes: three for each mask, and one to begin with."""
    return 3 * masks + 1


WAITS = 20
"""Further steps that an attacker waits for at most; more are needed with probability 2^-22."""


def found_after(view: Seen, steps: int) -> Integers:
    """Returns the secrets of so many steps, or of a few more if those do not tell masks apart."""
    while True:
        try:
            return recovered(Seen(view.scalars[:steps], view.sent[:steps]), RING_BITS)
        except ArgumentError:
            if steps == len(view.sent):
                raise
            steps += 1


def row_of(masks: int, scalar_bits: int, *, fresh: bool) -> dict[str, Any]:
    """Returns what the attack on a model of digits recovers."""
    x, y = load_digits(return_X_y=True)
    least = steps_for(masks)
    weights = descent(x / 16, y, steps=least + WAITS, rate=0.5, frac_bits=FRAC_BITS)
    view = seen(weights, masks=masks, scalar_bits=scalar_bits, bits=RING_BITS, fresh=fresh)
    begun = time.perf_counter()
    found = found_after(view, least)
    seconds = time.perf_counter() - begun
    same = (found[1:] == weights[1 : len(found)]).mean()
    return {
        "masks m": masks,
        "masks are": "fresh in every step" if fresh else "those of all steps",
        "bits of a scalar": scalar_bits,
        "steps seen": len(found),
        "weights": weights.shape[1],
        "recovered, %": 100 * float(same),
        "seconds": seconds,
        "time to break, published": "-"
        if fresh or scalar_bits != FRAC_BITS
        else PUBLISHED.get(masks, "-"),
    }


@Benchmark(
    FEDERATED,
    "pencil",
    "Pencil",
    minutes=15,
    results=[
        Result(
            "pencil-training",
            "Its training, made private, beside its own Table III.",
            columns="task | rows | samples/h, LAN | published, LAN | samples/h, WAN | published, "
            "WAN | MB a sample | published, MB | rounds a step | epsilon of these steps",
        ),
        Result(
            r"pencil-accuracy-\w+",
            "What its model learns by round, beside the same training in the clear.",
            options="--accuracy",
            columns="model | features | round | Pencil, % | in the clear, private, % | in the "
            "clear, not private, %",
            where="round = 1 or 2 or 4",
        ),
        Result(
            "pencil-attack",
            "**Masks that its Algorithm 3 uses again tell one data owner every weight of a model, "
            "in seconds**; fresh masks tell nothing.",
            options="--attack",
            columns="masks m | masks are | bits of a scalar | steps seen | recovered, % | seconds "
            "| time to break, published",
        ),
    ],
)
def main(
    attack: Annotated[bool, Option(help="Recover a model that reused masks hide.")] = False,
    accuracy: Annotated[bool, Option(help="What is learnt, beside training in the clear.")] = False,
    data: Annotated[
        str | None,
        Option(help=f"Records of --accuracy: {', '.join(CASES)}; digits by default."),
        one_of(CASES),
    ] = None,
    masks: Annotated[
        list[int] | None, Option(help="Masks m; by default 2, 4 and 8."), Whole(1)
    ] = None,
    batch: Annotated[int, Option(help="Records of a step, on average."), Whole(1)] = 256,
    steps: Annotated[int, Option(help="Steps that are measured, after one."), Whole(1)] = 1,
) -> Iterator[Table]:
    """Pencil's training beside its Table III, or what Algorithm 3 tells a data owner of weights."""
    if attack and accuracy:
        raise ArgumentError("accuracy", accuracy, "with {attack}", code="conflict")
    if data is not None and not accuracy:
        raise ArgumentError("data", data, "without {accuracy}", code="conflict")
    if not attack:
        if masks is not None:
            raise ArgumentError("masks", masks, "without {attack}", code="conflict")
        if accuracy:
            yield accuracy_table(data=data or "digits", repeats=5)
            return
        yield training_table(batch=batch, steps=steps)
        return
    counts = masks or [*PUBLISHED]
    kinds = [(FRAC_BITS, False), (RING_BITS, False), (FRAC_BITS, True)]
    yield Table(
        NAME,
        [row_of(m, bits, fresh=fresh) for m in counts for bits, fresh in kinds],
        masks=counts,
        ring_bits=RING_BITS,
        frac_bits=FRAC_BITS,
        model="softmax regression on the digits, gradient descent from zero",
        seed="the operating system's for masks and scalars",
        network="none: what is sent is taken as it is made",
    )
