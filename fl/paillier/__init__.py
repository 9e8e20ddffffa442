"""Paillier's additively homomorphic encryption, and the aggregator that uses it.

The textbook scheme (`keygen`, `encrypt`, `decrypt`, `enc_add`, `enc_add_const`, `enc_mul_const`) is
for learning and for comparing with `phe`. `PaillierAggregator` packs many values into a plaintext
(`Packing`) and encrypts with short randomness (`ShortRandomness`). gmpy2 does the arithmetic.
"""

from fl.paillier.aggregator import PaillierAggregator
from fl.paillier.keys import PrivateKey, PublicKey, keygen
from fl.paillier.packing import Packing
from fl.paillier.scheme import (
    check_ciphertext,
    decrypt,
    decrypt_signed,
    enc_add,
    enc_add_const,
    enc_mul_const,
    encrypt,
)
from fl.paillier.short import ShortRandomness

__all__ = [
    "Packing",
    "PaillierAggregator",
    "PrivateKey",
    "PublicKey",
    "ShortRandomness",
    "check_ciphertext",
    "decrypt",
    "decrypt_signed",
    "enc_add",
    "enc_add_const",
    "enc_mul_const",
    "encrypt",
    "keygen",
]
