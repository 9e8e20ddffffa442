"""The words of a tuple: every party's stream for it, and what the dealer makes of all of them."""

from collections.abc import Sequence

from crypten_ext.dealer.recipes import recipe_of
from crypten_ext.dealer.requests import Request
from crypten_ext.masks.keystream import Keystream, derive_key


def tuple_stream(key: bytes, sequence: int, request: Request) -> Keystream:
    """Returns the stream of one party for one tuple.

    The stream depends on the tuple's number and on all that was asked for, so that the words of a
    tuple which was expected but not asked for are never used for another one.
    """
    return Keystream(derive_key(key, f"tuple {sequence} {request.digest.hex()}"))


def correction_of(keys: Sequence[bytes], sequence: int, request: Request) -> bytes:
    """Returns the last party's correction of one tuple; `keys` are all parties', by rank."""
    recipe = recipe_of(request)
    shares = [
        recipe.expand(tuple_stream(key, sequence, request), rank) for rank, key in enumerate(keys)
    ]
    return recipe.correction(shares).numpy().tobytes()
