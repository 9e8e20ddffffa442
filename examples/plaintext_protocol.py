"""One recipe on the plaintext ring, with the worst rounding that a host may do.

python examples/plaintext_protocol.py
"""

import numpy as np

from extensions.protocols.inverse_sqrt import InverseSqrtPlan, inverse_sqrt
from extensions.ring.clear import ClearRing
from extensions.ring.fixed_point import decode, encode

ring = ClearRing(frac_bits=20, rounding="extreme")
plan = InverseSqrtPlan(frac_bits=20, degree=4)
x = np.linspace(0.01, 300.0, 20_000)
y = decode(inverse_sqrt(ring, encode(x, 20), plan), 20)
print(
    f"largest relative error {np.max(y * np.sqrt(decode(encode(x, 20), 20)) - 1):.1e} (never > 0)"
)
