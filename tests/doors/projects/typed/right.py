"""What a user writes: each name is found, and each value has its type."""

from typing import assert_type

import crypten_ext
import fl
import numpy as np
import tfe_ext
from extensions.errors import ArgumentError
from extensions.estimator import PrivateClassifier, PrivateRegressor

x, y = np.zeros((6, 2)), np.array([0, 1, 0, 1, 0, 1])

model = PrivateClassifier(epsilon=2, schema={"age": (0, 100)}).fit(x, y, groups=np.arange(6) % 3)
assert_type(model, PrivateClassifier)
accuracy: float = model.score(x, y)
epsilon: float = model.epsilon_
price: float = PrivateRegressor(epsilon=2).fit(x, y, groups=np.arange(6) % 3).score(x, y)

try:
    crypten_ext.enable()
except ArgumentError as error:
    code: str = error.code
noise = crypten_ext.gaussian_noise((8, 5), sigma=1.0)
layer = crypten_ext.nn.Linear(64, 10).encrypt()
optimizer = crypten_ext.optim.DPSGD

protocol = tfe_ext.ABY3()
config = tfe_ext.local_config("alice")
network = tfe_ext.keras.Sequential()

clients = fl.partition((x, y), 2, scheme="iid")
masked = fl.MaskedAggregator()
run = fl.FederatedAveraging(model=fl.models.mlp(2), clients=clients, aggregator=masked)
history = run.fit(rounds=5, test_set=(x, y))
sent: int = history[-1].bytes_total
assert_type(history.accuracy, float | None)
