"""The estimators with processes: parties of CrypTen here, and a party among others."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from extensions.estimator import PrivateClassifier
from extensions.runs.processes.credentials import federation_of
from tests.helpers.federations import identities, listeners
from tests.helpers.patience import PATIENCE

PARTY = """
import sys
from sklearn.datasets import load_breast_cancer
from extensions.estimator import PrivateClassifier

folder, rank = sys.argv[1], int(sys.argv[2])
X, y = load_breast_cancer(return_X_y=True)
ranges = [(0.0, 2.0 * float(column.mean())) for column in X.T]
own = slice(rank, None, 2)
model = PrivateClassifier(
    delta=1e-4, backend="crypten", schema=ranges, target=[0, 1], ledger=f"{folder}/{rank}.json",
    federation=f"{folder}/federation.toml", key=f"{folder}/p{rank}.pem", settings={"steps": 5},
)
model.fit(X[own], y[own])
model.save(f"{folder}/{rank}.npz")
print(model.epsilon_ <= 2, model.score(X, y))
"""


def test_parties_are_processes():
    x, y = load_breast_cancer(return_X_y=True)
    ranges = [(0.0, 2.0 * float(column.mean())) for column in x.T]
    options = {"schema": ranges, "mode": "hidden", "settings": {"steps": 3}}
    found = PrivateClassifier(backend="crypten", **options).fit(x, y, groups=np.arange(len(x)) % 2)
    assert found.report_["backend"] == "crypten"
    assert found.report_["rounds"] > 0
    assert found.report_["opened"] == ["the model"]


def test_owners_on_machines_of_their_own_train_together(tmp_path):
    places = listeners(2)
    own = identities(tmp_path, "p0", "p1")
    federation_of(own, places).write(tmp_path / "federation.toml")
    for each in places:
        each.close()
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", PARTY, str(tmp_path), str(rank)],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    told = [run.communicate(timeout=PATIENCE) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], told
    first, second = (PrivateClassifier.load(tmp_path / f"{rank}.npz") for rank in range(2))
    x, _ = load_breast_cancer(return_X_y=True)
    assert (first.predict_proba(x) == second.predict_proba(x)).all()
    assert all(out.startswith("True 0.9") for out, _ in told), told
    assert all((tmp_path / f"{rank}.json").is_file() for rank in range(2))


@pytest.mark.parametrize("mode", ["open", "hidden"])
def test_a_plan_of_processes_counts_their_rounds(mode):
    x, y = load_breast_cancer(return_X_y=True)
    ranges = [(0.0, 2.0 * float(column.mean())) for column in x.T]
    options = {"schema": ranges, "mode": mode, "backend": "crypten"}
    told = PrivateClassifier(**options).plan(x, y, groups=np.arange(len(x)) % 3)
    assert told["rounds"] >= told["steps"]
    assert told["bytes"] > 0
