"""What a round on Flower is; known to the command and to the Python that has flwr."""

from dataclasses import dataclass

OURS, SECAGG, FEDAVG = "ours", "Flower SecAgg+", "Flower FedAvg"
STAGES = {
    OURS: ("model", "begin", "keys", "sealed", "survivors", "consents"),
    SECAGG: ("setup", "share keys", "collect masked vectors", "unmask"),
    FEDAVG: ("train",),
}
"""By way, the messages that a client gets in a round, by the names that each gives them."""
OUTPUTS = 100
CLIP, BITS = 8.0, 32
STEP = 0.01
HOUR = 3600.0
"""Seconds that clients have, so that none is late on a machine with few cores."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One round.

    Attributes:
        way: one of STAGES.
        clients: how many begin.
        values: of the model, a multiple of 100.
        lost: how many clients are gone: the first ones.
        stage: the message that they no longer answer, a place in STAGES.
        rounds: how many, of which all are alike.
    """

    way: str
    clients: int
    values: int
    lost: int = 0
    stage: int = 0
    rounds: int = 1

    @property
    def threshold(self) -> int:
        """Clients that open a sum: more than two thirds, as `fl.MaskedAggregator` has it."""
        return 2 * self.clients // 3 + 1

    @property
    def frac_bits(self) -> int:
        """Fractional bits that a sum of so many clients leaves in 32."""
        return min(18, BITS - 1 - (int(CLIP) * self.clients).bit_length())
