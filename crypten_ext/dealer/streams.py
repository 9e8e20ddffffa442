"""The words of a tuple: every party's stream for it, and what the dealer makes of all of them."""

from collections.abc import Sequence

from crypten_ext.dealer.recipe import Shares
from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.masks.keystream import Keystream, derive_key
from extensions.ring.fixed_point import Integers


def tuple_stream(key: bytes, sequence: int, request: Request) -> Keystream:
    """Returns the stream of one party, or of the dealer, for one tuple.

    It depends on the tuple's number and on the whole request, so that words of a tuple that was
    expected but not asked for are never used for another one.
    """
    return Keystream(derive_key(key, f"tuple {sequence} {request.digest.hex()}"))


def portion(words: int, sequence: int, rank: int, parties: int) -> slice:
    """Returns which words of the correction of one tuple this party is sent.

    Each word goes to one party. The portions of a tuple differ by at most one word, and the longer
    ones go round with its number, so that a tuple that is dealt again is dealt alike.
    """
    place = (rank + sequence) % parties
    return slice(words * place // parties, words * (place + 1) // parties)


MOST_KEPT = 1 << 28
"""Words of masks that many tuples take which a dealer keeps, 2 GiB; it draws others anew."""


def correction_of(
    keys: Sequence[bytes],
    dealers_key: bytes,
    sequence: int,
    request: Request,
    kept: dict[Request, Shares] | None = None,
) -> Integers:
    """Returns the words of a tuple's correction: the same whenever the arguments are.

    `kept` has masks of a run that many of its tuples take, and gets those that this one takes.
    """
    recipe, kept = recipe_of(request), {} if kept is None else kept
    shares = _expanded(keys, sequence, request)
    others: Shares = []
    if recipe.of is not None:
        number, standing = recipe.of
        if standing not in kept:
            drawn = recipe_of(standing).combined(_expanded(keys, number, standing))
            if sum(mask.numel() for each in kept.values() for mask in each) > MOST_KEPT:
                kept.clear()
            kept[standing] = drawn
        others = kept[standing]
    dealers = tuple_stream(dealers_key, sequence, request)
    words: Integers = recipe.correction(shares, dealers, others).numpy()
    return words


def _expanded(keys: Sequence[bytes], sequence: int, request: Request) -> list[Shares]:
    """What all parties expand."""
    recipe = recipe_of(request)
    return [
        recipe.expand(tuple_stream(key, sequence, request), rank) for rank, key in enumerate(keys)
    ]
