"""Three parties train one private classifier on their own digits, with a dealer beside them.

pea dealer --bind 127.0.0.1:29400 --parties 3 &
DEALER_ADDRESS=127.0.0.1:29400 torchrun --nproc-per-node 3 examples/crypten_script.py
"""

import numpy as np
from sklearn.datasets import load_digits

import crypten_ext

import crypten
from crypten import communicator

crypten.init()
crypten_ext.enable()
rank, parties = communicator.get().get_rank(), communicator.get().get_world_size()
x, y = load_digits(return_X_y=True)
x, y = x[rank::parties] / np.linalg.norm(x[rank::parties], axis=1, keepdims=True), y[rank::parties]

crypten.cfg.mpc.provider = "DEALER"  # with CrypTen's default, party 0 sees every secret
model = crypten_ext.nn.Linear(64, 10).encrypt()
loss = crypten_ext.nn.BCEWithLogitsLoss()
optimizer = crypten_ext.optim.DPSGD(
    model, lr=10.0, max_grad_norm=1.0, noise_multiplier=2.4, sample_rate=0.1
)
for xb, yb in crypten_ext.poisson_batches(x, y, sample_rate=0.1, steps=30):
    optimizer.zero_grad()
    loss(model(xb), yb).backward()
    optimizer.step()
if rank == 0:
    print(f"epsilon = {optimizer.get_epsilon(delta=1e-5):.2f}")
crypten_ext.dealer.disconnect()
crypten.uninit()
