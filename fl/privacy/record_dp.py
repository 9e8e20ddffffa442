"""Differential privacy of single records: every client trains by DPSGD."""

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from fl.clients import Loss, described
from fl.privacy.dp_sgd import LocalDPSGD
from fl.privacy.ledgers import ClientLedgers
from fl.privacy.mechanism import Mechanism
from fl.round.machines import Round


class RecordDP(Mechanism):
    """Protects every single record, by DPSGD on each client.

    Trust:
        Only the client that has the record: what it sends is private already, for the server and
        all others. Each record is protected on its own; `CentralDP` protects all of a client's
        records together.

    Guarantees:
        `ledger.of(k)` composes the steps of the rounds of client k, for its records with and
        without one; numbers of records are public. A round is charged before it begins.

    Cost:
        0 bytes; a backward pass a record, on the client.

    Args:
        noise_multiplier: z, standard deviation of a step's noise over C.
        max_grad_norm: C, in L2, of one record's gradient.
        steps: number of DPSGD steps in a round.
        sample_rate: probability with which a record takes part in a step.
        lr: learning rate of the clients.
        loss: of outputs and labels, as `LocalDPSGD` takes it: a mean or a sum over records.
            Weights of `CrossEntropyLoss` and `NLLLoss` multiply what a record counts.

    Raises:
        ArgumentError: an argument outside its range; where a run is made, a model that no single
            record trains, or a loss that divides by something of its batch.

    Source:
        Abadi et al., CCS 2016; McMahan et al., AISTATS 2017, with it for the clients' training.

    Examples:
        >>> private = fl.RecordDP(noise_multiplier=1.0, lr=0.1, steps=2, sample_rate=0.2)
        >>> run = fl.FederatedAveraging(
        ...     **setup, aggregator=fl.PlainAggregator(), mechanism=private
        ... )
        >>> _ = run.fit(rounds=1)
        >>> 0 < run.get_epsilon(1e-3) < 10
        True
    """

    parameters_only = True
    hides_updates = True
    ledger: ClientLedgers
    training: LocalDPSGD

    def __init__(
        self,
        *,
        noise_multiplier: float,
        lr: float,
        max_grad_norm: float = 1.0,
        steps: int = 10,
        sample_rate: float = 0.1,
        loss: Loss = cross_entropy,
    ) -> None:
        self.training = LocalDPSGD(
            steps=steps,
            sample_rate=sample_rate,
            lr=lr,
            max_grad_norm=max_grad_norm,
            noise_multiplier=noise_multiplier,
            loss=loss,
        )
        self.ledger = ClientLedgers()

    def parameters(self) -> dict[str, Any]:
        return described(self.training)

    def check_records(self, model: nn.Module, x: Tensor, y: Tensor) -> None:
        self.training.check(model, x, y)

    def charge(self, round: Round, population: int) -> None:
        for client in round.clients:
            self.ledger.of(client).record(
                "local steps",
                noise_multiplier=self.training.noise_multiplier,
                sample_rate=self.training.sample_rate,
                steps=self.training.steps,
            )
