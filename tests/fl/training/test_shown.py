"""What a notebook shows of a run, its history, its aggregator and its ledger."""

import runpy
import sys

import numpy as np
import pytest
import torch

import fl
from extensions.errors import ArgumentError, MissingExtraError
from extensions.printing import table
from extensions.privacy.accounting import Ledger
from fl.protocols import History, RoundReport
from fl.training.callbacks import MetricsLogger
from tests.helpers.paths import ROOT
from tests.test_install import EXTRAS


def finished(rounds: int) -> fl.FederatedAveraging:
    records = (torch.eye(4).repeat(5, 1), torch.arange(4).repeat(5))
    run = fl.FederatedAveraging(
        model=torch.nn.Linear(4, 4),
        clients=fl.partition(records, 4),
        aggregator=fl.MaskedAggregator(colluders=1),
        mechanism=fl.LocalDP(epsilon=8.0, delta=1e-5),
        client_fraction=1.0,
    )
    run.fit(rounds, records, progress=False)
    return run


def test_a_run_is_a_short_table_of_what_it_did():
    run = finished(2)
    title, names, row = repr(run).splitlines()
    assert title == "FederatedAveraging"
    assert "MaskedAggregator" in row
    assert dict(zip(names.split(), row.split(), strict=True))["rounds"] == "2"
    assert len(repr(run.history).splitlines()) == 2 + 2
    shown = [line.split() for line in repr(run.aggregator).splitlines()]
    assert ["colluders", "1"] in shown
    assert ["fixed_point.bits", "64"] in shown
    assert repr(run.mechanism.ledger).splitlines()[0] == "Ledgers of 4 clients"


def test_a_history_is_a_frame_of_a_row_a_round():
    history = finished(3).history
    frame = history.to_frame()
    assert frame.index.tolist() == [1, 2, 3]
    assert frame["accuracy"].tolist() == [each.accuracy for each in history]
    assert frame["bytes_total"].sum() == sum(each.bytes_total for each in history)


@pytest.mark.parametrize(
    ("package", "module", "extra", "use"),
    [
        ("pandas", "pandas", "fl", lambda: History().to_frame()),
        ("matplotlib", "matplotlib.figure", "explain", lambda: History().plot()),
        ("opendp", "opendp", "laplace", lambda: fl.LocalDP(epsilon=1.0, noise="laplace")),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(monkeypatch, package, module, extra, use):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"^{package} is .*'\.\[{extra}\]'"):
        use()
    assert any(line.startswith(package) for line in EXTRAS[extra])


def test_of_many_rows_the_last_are_shown():
    ledger = Ledger()
    for number in range(12):
        ledger.charge(f"release {number}", epsilon=0.1, delta=0.0)
    lines = repr(ledger).splitlines()
    assert len(lines) == 1 + 1 + 10 + 1
    assert "release 2 " in lines[2]
    assert lines[-1] == "... the last 10 of 12"
    assert repr(Ledger()) == "Ledger"


def test_columns_without_a_value_are_left_out():
    assert table("T", [{"a": 1, "b": None}, {"a": 2.0, "b": ""}]) == "T\na\n1\n2"


def test_histories_are_drawn_side_by_side(tmp_path):
    one, other = history_of(3), history_of(5)
    figure = one.plot("plain", masked=other)
    panels = {axes.get_ylabel(): axes for axes in figure.axes}
    assert set(panels) == {"accuracy", "MB so far"}
    lines = panels["MB so far"].get_lines()
    assert [line.get_label() for line in lines] == ["plain", "masked"]
    np.testing.assert_allclose(lines[1].get_ydata(), np.cumsum([2.0] * 5))
    figure.savefig(tmp_path / "runs.png")
    assert (tmp_path / "runs.png").stat().st_size > 5000


def history_of(rounds):
    return History(
        [
            RoundReport(number=n, selected=(0,), bytes_total=2_000_000, accuracy=n / 10)
            for n in range(1, rounds + 1)
        ]
    )


def test_a_history_without_rounds_is_not_drawn():
    with pytest.raises(ArgumentError) as error:
        History().plot()
    assert error.value.argument == "columns"


def test_a_tracker_is_given_the_numbers_of_each_round():
    seen = []
    logger = MetricsLogger(lambda numbers, *, step: seen.append((step, numbers)))
    logger(history_of(2), None)
    ((step, numbers),) = seen
    assert step == 2
    assert numbers["accuracy"] == 0.2
    assert all(isinstance(value, float) for value in numbers.values())
    with pytest.raises(ArgumentError) as error:
        MetricsLogger("mlflow")
    assert (error.value.argument, error.value.code) == ("log", "type")


def test_the_sweep_draws_all_aggregators_and_epsilons(tmp_path, capsys):
    example = runpy.run_path(str(ROOT / "examples" / "fl_sweep.py"))
    runs = example["sweep"](str(tmp_path / "sweep.png"), rounds=2)
    assert len(runs) == len(capsys.readouterr().out.splitlines()) == 6
    assert (tmp_path / "sweep.png").stat().st_size > 10_000
    for name, history in runs.items():
        _, _, epsilon = name.rpartition(" ")
        spent = history[-1].epsilon
        assert spent == pytest.approx(float(epsilon), rel=0.01) if "inf" not in epsilon else True
    plain, masked = (
        sum(each.bytes_total for each in runs[f"{k}, epsilon infinite"])
        for k in example["AGGREGATORS"]
    )
    assert masked > plain
