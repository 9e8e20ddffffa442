"""What a client asks of owners whose records are in their own players."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from extensions.errors import ArgumentError
from extensions.protocols.agreement import canonical
from extensions.runs.checkpoints import at_once
from tfe_ext.players.records.desk import ASK, TAKE


class FarOwner:
    """An owner, as a client knows it: the name of its player, and that one's device."""

    def __init__(self, name: str, device: str) -> None:
        self.name = name
        self.device = device

    def ask(self, what: str, arrays: Sequence[Any] = (), **fields: Any) -> Mapping[str, Any]:
        """Returns the owner's answer, see `tfe_ext.players.records.desk.Desk.answer`.

        Arrays that go with the request stay on the owner's device if they are there. The owner's
        own output has the reason of a refusal, which is an ArgumentError here.

        Cost:
            A request and its answer; no word between servers.
        """
        message = canonical({"ask": what, **fields})
        with tf.device(self.device):
            given = [tf.constant(message), *arrays]
            (said,) = tf.raw_ops.PyFunc(input=given, token=ASK, Tout=[tf.string])
        answer: dict[str, Any] = json.loads(said.numpy())
        if "none" in answer:
            advice = "Start it by `pea players` with its owner's {records}."
            raise ArgumentError("players", f"{self.name} without records", "owners", advice)
        if (refused := answer.get("refused")) is not None:
            text = f"refused by player {self.name}"
            advice = f"The reason is in the output of player {self.name}."
            name, rule, code = (refused[each] for each in ("name", "rule", "code"))
            raise ArgumentError(name, text, rule, advice, code=code)
        return answer

    def take(self, name: str) -> tf.Tensor:
        """Returns an array of the owner's as a tensor on its device; none of it comes here."""
        with tf.device(self.device):
            message = tf.constant(name)
            (tensor,) = tf.raw_ops.PyFunc(input=[message], token=TAKE, Tout=[tf.int64])
        return tensor


def ask_all(owners: Sequence[FarOwner], what: str, **fields: Any) -> list[Mapping[str, Any]]:
    """Returns the answers of all owners, who work at once; each hears its rank to prepare.

    The first refusal is raised once all have answered.
    """

    def ask(rank: int) -> Mapping[str, Any]:
        own: dict[str, Any] = {"rank": rank} if what == "prepare" else {}
        return owners[rank].ask(what, **fields, **own)

    return at_once(ask, range(len(owners)))
