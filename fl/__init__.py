"""Federated learning on plain PyTorch, with aggregators that say who learns what.

    run = fl.FederatedAveraging(
        model=fl.models.mlp(), clients=fl.partition(train, 100), aggregator=fl.PlainAggregator()
    )
    history = run.fit(rounds=100, test_set=test)

`FederatedAveraging` runs rounds. `partition` deals records out, `partition_by` by their users;
`datasets` reads frames, loaders and LEAF's files, `tokens` makes integers of texts; `models` has
those of the papers. Its ``train=`` is what a client does, a function of model, records and
`ClientRound`, which may return a `ClientResult`; `algorithms` has FedProx, SCAFFOLD and FedNova.
Its ``server_optimizer=`` (`FedAvgM`, `FedAdam`, `FedYogi`, `FedAdagrad`) is what the server makes
of the mean. ``fit(callbacks=[CSVWriter(file), TensorBoardWriter(folder)])`` tells of every round,
`MetricsLogger` a tracker such as MLflow; ``history.plot()`` draws them.

A mechanism changes updates on clients and their mean on the server, and keeps the ledger:
`LocalDP`, `SignDS`, `CentralDP` and `DistributedDP` protect clients or updates, `RecordDP` single
records; `RandomSubset` exchanges a part of the values. `fl.leakage` rebuilds records from what a
coalition saw. The command `pea fl` runs experiments from the shell.

**Aggregators**: in `PlainAggregator` the server reads every update, and in `RobustAggregator` takes
a mean that attackers cannot move far; `MaskedAggregator` hides all of them from it, for many
clients on a `SparseGraph`; in `PaillierAggregator` it adds ciphertexts; with `ChainAggregator`
clients hand on a masked sum, also without a server. `FixedPoint` says how updates become integers.
``leaks_to(Coalition(...), outcome)`` says who learns what.

`fl.protocols` has what an aggregator, a mechanism or a server optimizer of your own is made of, and
the errors; `fl.simulation` has networks, drop-outs, lists of neighbours and times by formula.
"""

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING

_ours = os.path.join(os.path.dirname(os.path.dirname(__file__)), "extensions")
_spec = find_spec("extensions")
_found = [*(_spec.submodule_search_locations or [str(_spec.origin)])] if _spec else [_ours]
if os.path.realpath(_found[0]) != os.path.realpath(_ours):  # a folder or file of the user's
    raise ImportError(f"{_found[0]} hides PEA's package extensions: rename it.", path=_found[0])

from extensions.lazy_names import lazy_names  # noqa: E402


def _check_installed() -> None:
    from extensions.errors import MissingExtraError

    for package in ("torch", "gmpy2"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "fl")


if TYPE_CHECKING:
    from extensions import __version__ as __version__
    from extensions.errors import UpdateError as UpdateError
    from fl import algorithms as algorithms
    from fl import datasets as datasets
    from fl.chain import ChainAggregator as ChainAggregator
    from fl.clients import ClientResult as ClientResult
    from fl.clients import ClientRound as ClientRound
    from fl.masked import MaskedAggregator as MaskedAggregator
    from fl.masked import SparseGraph as SparseGraph
    from fl.paillier import PaillierAggregator as PaillierAggregator
    from fl.plain import PlainAggregator as PlainAggregator
    from fl.privacy.adaptive_clipping import AdaptiveClipping as AdaptiveClipping
    from fl.privacy.central_dp import CentralDP as CentralDP
    from fl.privacy.distributed_dp import DistributedDP as DistributedDP
    from fl.privacy.local_dp import LocalDP as LocalDP
    from fl.privacy.record_dp import RecordDP as RecordDP
    from fl.privacy.signds import SignDS as SignDS
    from fl.robust import RobustAggregator as RobustAggregator
    from fl.round.quantization import FixedPoint as FixedPoint
    from fl.round.view import Coalition as Coalition
    from fl.subset import RandomSubset as RandomSubset
    from fl.training import models as models
    from fl.training.callbacks import CSVWriter as CSVWriter
    from fl.training.callbacks import MetricsLogger as MetricsLogger
    from fl.training.callbacks import TensorBoardWriter as TensorBoardWriter
    from fl.training.federated import FederatedAveraging as FederatedAveraging
    from fl.training.optimizers import FedAdagrad as FedAdagrad
    from fl.training.optimizers import FedAdam as FedAdam
    from fl.training.optimizers import FedAvgM as FedAvgM
    from fl.training.optimizers import FedYogi as FedYogi
    from fl.training.records import partition as partition
    from fl.training.records import partition_by as partition_by
    from fl.training.records import tokens as tokens
else:
    _MODULES = {
        "extensions": ("__version__",),
        "extensions.errors": ("UpdateError",),
        "fl": ("algorithms", "datasets"),
        "fl.chain": ("ChainAggregator",),
        "fl.clients": ("ClientResult", "ClientRound"),
        "fl.masked": ("MaskedAggregator", "SparseGraph"),
        "fl.paillier": ("PaillierAggregator",),
        "fl.plain": ("PlainAggregator",),
        "fl.privacy.adaptive_clipping": ("AdaptiveClipping",),
        "fl.privacy.central_dp": ("CentralDP",),
        "fl.privacy.distributed_dp": ("DistributedDP",),
        "fl.privacy.local_dp": ("LocalDP",),
        "fl.privacy.record_dp": ("RecordDP",),
        "fl.privacy.signds": ("SignDS",),
        "fl.round.quantization": ("FixedPoint",),
        "fl.round.view": ("Coalition",),
        "fl.robust": ("RobustAggregator",),
        "fl.subset": ("RandomSubset",),
        "fl.training": ("models",),
        "fl.training.callbacks": ("CSVWriter", "MetricsLogger", "TensorBoardWriter"),
        "fl.training.federated": ("FederatedAveraging",),
        "fl.training.optimizers": ("FedAdagrad", "FedAdam", "FedAvgM", "FedYogi"),
        "fl.training.records": ("partition", "partition_by", "tokens"),
    }
    _named, __dir__ = lazy_names(__name__, _MODULES, _check_installed)

    def __getattr__(name: str) -> object:
        if name == "protocols":
            _check_installed()
        try:
            return _named(name)
        except AttributeError as error:
            for place in () if name.startswith("_") else ("protocols", "simulation"):
                if name in _named(place).__all__:
                    raise AttributeError(f"fl.{name} is fl.{place}.{name}") from error
            raise
