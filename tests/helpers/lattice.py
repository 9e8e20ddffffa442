"""What a secret key shows of a ciphertext beyond its message."""

from math import prod

import numpy as np

from extensions.two_party.lattice import wire
from extensions.two_party.lattice.packing import output_places
from extensions.two_party.lattice.product import KeyOwner
from extensions.two_party.lattice.scheme import DEGREE


def integers(residues, primes):
    """Returns the centred integers of residues (primes, n), by the Chinese remainder theorem."""
    whole = prod(primes)
    units = [whole // prime * pow(whole // prime, -1, prime) for prime in primes]
    rows = [[int(x) * unit for x in row] for row, unit in zip(residues, units, strict=True)]
    sums = (sum(column) % whole for column in zip(*rows, strict=True))
    return [x - whole if x > whole // 2 else x for x in sums]


def opened(key_owner: KeyOwner, plan, answer):
    """Returns the random half of an answer of one ciphertext, and the errors of its outputs."""
    scheme = key_owner._scheme
    primes = scheme.answer_primes
    places = output_places(plan, 0, 0).ravel()
    held = wire.unpack("answer", memoryview(answer)[32:], (2, DEGREE + places.size), primes)
    half, sent = held[:, :DEGREE], held[:, DEGREE:]
    words = np.frombuffer(key_owner._secret.to_bytes(), dtype="<u8", offset=88)
    secret = scheme.plaintext(words.reshape(-1, DEGREE)[: len(primes)])
    turned = scheme.transform_back(scheme.times(scheme.transform(half[None]), secret))[0]
    phase = integers((turned[:, places] + sent) % np.array(primes, np.uint64)[:, None], primes)
    share = key_owner.decrypt(plan, answer).ravel().view(np.uint64)
    whole = prod(primes)
    scaled = [int(word) * whole + 2**63 >> 64 for word in share]
    errors = [(p - m) % whole for p, m in zip(phase, scaled, strict=True)]
    return half, [e - whole if e > whole // 2 else e for e in errors]
