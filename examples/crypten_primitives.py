"""The new methods of encrypted tensors, in one process or in as many as you start.

python examples/crypten_primitives.py
"""

import torch

import crypten_ext

import crypten
from crypten import communicator

crypten.init()
crypten_ext.enable()
if communicator.get().get_world_size() > 1:  # with CrypTen's default, party 0 sees every secret
    crypten.cfg.mpc.provider = "PARTIES"
x = crypten.cryptensor(torch.tensor([0.25, 2.0, 300.0]))
print("1/sqrt(x)      ", x.inverse_sqrt().get_plain_text())
print("min(1, 2/|g|)  ", x.clip_factor(max_norm=2.0).get_plain_text())
g = crypten.cryptensor(torch.tensor([[3.0, 4.0], [0.3, 0.4]]))
print("rows of norm 1 ", g.clip_by_norm(1.0).get_plain_text())
print("noise          ", crypten_ext.gaussian_noise((3,), sigma=1.0).get_plain_text())
crypten.uninit()
