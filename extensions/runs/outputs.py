"""What is opened at the end of a run: a count of correct predictions, the model, or both."""

from collections.abc import Sequence

from extensions.network.chain import Parameters, forward
from extensions.network.evaluation import count_misses
from extensions.protocols.announcement import Announced
from extensions.protocols.host import Host, flat, named
from extensions.protocols.settings import network_of
from extensions.ring.fixed_point import Integers, Reals, decode
from extensions.ring.interface import Share
from extensions.runs.config import TrainConfig

COUNT = "the number of correct predictions on held-out records"
MODEL = "the model"
_MISSES = "misses"


class Outputs:
    """What a run opens of its model.

    Args:
        host: of the run.
        config: of the run.
        held_out: records on which predictions are counted.

    Attributes:
        names: of the values.
        titles: what the report says of them.
    """

    def __init__(self, host: Host, config: TrainConfig, held_out: Announced) -> None:
        self._host = host
        self._held_out = held_out
        self._network = network_of(config, held_out.features)
        layers = len(self._network.widths) - 1
        self._model = [*named([None] * 2 * layers)] if config.evaluate == "opened" else []
        self.names = [*self._model, _MISSES]
        self.titles = [MODEL, COUNT] if self._model else [COUNT]

    def compute(self, model: Parameters) -> list[list[Integers]]:
        """Returns, for each holder, its summand of each value; nothing is opened.

        Cost:
            That of a forward pass and `extensions.network.evaluation.count_misses`.
        """
        host, held_out = self._host, self._held_out
        placed = host.place(held_out.records)

        def outputs(model: Parameters) -> list[Share]:
            batch = host.everything(placed, held_out.sizes)
            logits = forward(host.ring, self._network, model, batch.x).logits
            misses = count_misses(host.ring, logits, batch.y, ties="right").reshape(1)
            return [*(flat(model) if self._model else []), misses]

        return host.summands(model, outputs)

    def parameters(self, opened: Sequence[Integers]) -> dict[str, Reals]:
        """Returns the opened weights and biases by name; nothing where the model stays shared."""
        values = dict(zip(self.names, opened, strict=True))
        return {name: decode(values[name], self._host.ring.frac_bits) for name in self._model}

    def accuracy(self, opened: Sequence[Integers]) -> float:
        """Returns the part of the held-out records that the model gets right."""
        (misses,) = dict(zip(self.names, opened, strict=True))[_MISSES]
        records = sum(self._held_out.sizes)
        return float((records - int(misses)) / records)
