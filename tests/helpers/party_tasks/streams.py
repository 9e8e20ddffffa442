"""What test_streams.py asks processes that are copies of one template."""

import gc
import os
import random
import secrets
from typing import Any

import numpy as np
import torch
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers import CipherContext

from crypten_ext import dealer
from crypten_ext.dealer.client import Client
from crypten_ext.masks.key_agreement import KeyPair
from crypten_ext.masks.keystream import Keystream
from crypten_ext.processes.worker import Context
from extensions.privacy.randomness import InsecureSeededSource, SystemSource
from extensions.runs.processes import open_channel
from tests.helpers.party_tasks.protocols import session

import crypten
from crypten.mpc.primitives import ArithmeticSharedTensor, BinarySharedTensor

WORDS = (4,)
KEYED = ("prev", "next", "local")
BEFORE_A_KEY = (
    *(CipherContext, X25519PrivateKey, Keystream, KeyPair),
    *(torch.Generator, np.random.Generator, np.random.BitGenerator, np.random.RandomState),
    *(random.Random, InsecureSeededSource, Client),
)
"""Kinds of what holds a key, a seed or a state of noise."""


def draw(context: Context) -> dict[str, Any]:
    """Returns the beginning of every stream of a party, by what it is for."""
    stock = {
        f"seed of {name}": crypten.generators[name][torch.device("cpu")].initial_seed()
        for name in crypten.generators
    }
    with session(**{"mpc.provider": "DEALER"}):
        crypten.cryptensor([1.0]) * crypten.cryptensor([2.0])
        streams = {name: crypten.generators[name][torch.device("cpu")] for name in KEYED}
        keyed = {name: streams[name].words(WORDS) for name in KEYED}
        return {
            **stock,
            **{f"words of {name}": words.tolist() for name, words in keyed.items()},
            "key of the dealer": dealer.current()._key.hex(),
            "zero share": ArithmeticSharedTensor.PRZS(torch.Size(WORDS)).share.tolist(),
            "zero bits": BinarySharedTensor.PRZS(torch.Size(WORDS)).share.tolist(),
            **_own(),
        }


def _own() -> dict[str, Any]:
    """What every process draws for itself."""
    source = SystemSource()
    return {
        "noise": source.gaussian(0, 1e4, (8,)).tolist(),
        "sample": source.bernoulli(0, 0.5, 128).tolist(),
        "key": KeyPair().public_bytes.hex(),
        "mask": Keystream.fresh().words(WORDS).tolist(),
        "operating system": os.urandom(16).hex(),
        "secrets": secrets.token_hex(),
        "Python": random.getrandbits(64),
        "torch": torch.rand(2).tolist(),
        "NumPy": np.random.random(),
        "NumPy's default": np.random.default_rng().random(),
    }


def main() -> None:
    """Tells what a copy has from its template, and what it draws; no party, and no run."""
    channel = open_channel()
    channel.answer("done", lambda: (_inherited(), _own()))
    channel.tasks.get()


def _inherited() -> dict[str, Any]:
    """How much there is that holds a key, a seed or a state of noise, by kind."""
    gc.unfreeze()
    kinds: dict[str, int] = {}
    held = gc.get_objects()
    for one in {id(each): each for each in [*held, *gc.get_referents(*held)]}.values():
        if isinstance(one, type) or not issubclass(type(one), BEFORE_A_KEY):
            continue
        name = f"{type(one).__module__}.{type(one).__qualname__}"
        kinds[name] = kinds.get(name, 0) + 1
    return {
        "kinds": kinds,
        "CrypTen": {name: len(each) for name, each in crypten.generators.items()},
        "initialised": crypten.is_initialized(),
    }
