"""What the SuperLink runs: rounds that wait for the test."""

import json
import os
import time
from dataclasses import asdict

import fl.flower
from held_app.task import HOOKS, SETTINGS, X, Y


def test_records():
    """Returns digits that no client has; it is called once, by the process that runs the rounds."""
    (HOOKS / "server").write_text(str(os.getpid()))
    return X[100:200] / 16, Y[100:200]


def tell(history, model):
    report = history[-1]
    written = HOOKS / f"round-{report.number}"
    written.write_text(json.dumps(asdict(report)))
    written.rename(f"{written}.json")
    while not (HOOKS / f"go-{report.number + 1}").exists():
        time.sleep(0.05)


app = fl.flower.server_app(**SETTINGS, rounds=1, test_set=test_records, callbacks=[tell])
