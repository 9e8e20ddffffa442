"""What a step on ABY3's servers will take: its graph is traced, and never run."""

from dataclasses import replace

import numpy as np

from extensions.privacy.sampling import OwnRecords
from extensions.protocols.host import StepForecast, share_public
from extensions.protocols.optimizer import State
from extensions.protocols.pea import public_start
from extensions.protocols.records import Records
from extensions.protocols.step import Step
from extensions.runs.config import TrainConfig
from tfe_ext.players.config import local_config
from tfe_ext.run.training import host_of

import tf_encrypted as tfe


def plan(config: TrainConfig, step: Step, records: Records) -> StepForecast:
    """Returns what a step takes of a server on the average; of records only sizes are known."""
    features = records.features
    nothing = [
        OwnRecords(
            features=np.zeros((size, features), np.int64),
            labels=np.zeros((size, config.outputs), np.int64),
            frac_bits=config.frac_bits,
        )
        for size in records.sizes
    ]
    records = replace(records, own=nothing)
    tfe.set_config(local_config())
    host = host_of(config)
    model = share_public(host, public_start(config, features))
    parts = State.begin(host, config, model).parts
    cost = host.foreseen(step.sampled(host, records), parts, step.public(1))
    return StepForecast(cost.rounds, cost.traffic.mean, cost.memory)
