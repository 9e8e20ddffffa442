"""What is said of a run before it begins: its formula, its units, and when it is corrected."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from extensions.protocols.host import Speed, StepForecast
from extensions.protocols.records import Records
from extensions.runs.config import TrainConfig
from extensions.runs.config.run_time import NETWORKS, Network, forecast_run, opened_bytes, openly
from extensions.runs.summaries.forecast import ForecastDisplay, duration, epsilon_of, line_of, size
from tests.helpers.commands import call, pea

STEP = StepForecast(rounds=18, bytes=5_000_000, memory=50_000_000, trips=20)
RECORDS = Records((), (480, 479, 479), 64)


def settings(**changed: Any) -> TrainConfig:
    """Returns settings with noise that is given."""
    given = {"steps": 10, "sample_rate": 1.0, "noise_multiplier": 4.0, "delta": 1e-5}
    return TrainConfig(**{**given, "evaluate": "none", **changed})


def test_seconds_are_steps_of_trips_and_bytes_and_what_is_beside_them():
    pace = Speed(trip=0.01, byte=1e-8, overhead=3.0)
    run = forecast_run(settings(), RECORDS, 0, STEP, pace)
    assert run.each == pytest.approx(20 * 0.01 + 5e6 * 1e-8)
    assert run.seconds == pytest.approx(3.0 + 10 * run.each)
    assert forecast_run(settings(), RECORDS, 0, STEP, pace, 4).seconds == pytest.approx(
        3 + 4 * run.each
    )
    judged = forecast_run(settings(evaluate="mpc"), RECORDS, 359, STEP, pace)
    assert judged.after > run.after
    whitened = settings(whiten=True, noise_multiplier_whiten=9.0)
    longer = forecast_run(whitened, RECORDS, 0, STEP, pace).seconds
    assert longer > run.seconds
    assert forecast_run(whitened, RECORDS, 0, STEP, pace, whitened=True).seconds == run.seconds


@pytest.mark.parametrize("parties", [2, 3, 4])
def test_a_network_delays_each_trip_and_shares_out_what_each_connection_carries(parties: int):
    pace = Network(delay_ms=20.0, mbit=100.0).slower(Speed(trip=0.001), parties)
    assert pace.trip == pytest.approx(0.021)
    sent = 12.5e6  # a second of one direction of one connection
    assert 2 * (parties - 1) * sent * pace.byte == pytest.approx(1.0)
    assert NETWORKS["loopback"].slower(pace, parties) == pace


@pytest.mark.parametrize(
    ("changed", "rounds"),
    [
        ({}, 180 + 1),
        ({"average": 0.4}, 180 + 1 + 1),
        ({"whiten": True, "noise_multiplier_whiten": 9.0}, 180 + 1 + 2),
        ({"init": "local", "noise_multiplier_init": 4.0}, None),
    ],
)
def test_rounds_are_those_of_steps_and_of_what_is_beside_them(changed, rounds):
    pace = Speed(counted=True, averaging=1)
    run = forecast_run(settings(**changed), RECORDS, 0, STEP, pace)
    assert run.rounds == rounds
    assert (run.bytes is None) == (rounds is None)
    assert forecast_run(settings(), RECORDS, 0, STEP, Speed()).rounds == 180, (
        "where nothing else counts"
    )


def test_an_open_step_sends_the_model_once():
    config = settings(open="each-step")
    step = openly(config, 64)
    assert (step.rounds, step.bytes) == (1, 2 * 8 * 2 * 650)
    statistics = settings(method="statistics", loss="least-squares", steps=1)
    assert openly(statistics, 64).bytes == opened_bytes(64 * 65 // 2 + 64 * 10, 3)
    assert opened_bytes(1 << 14, 3) == 2 * opened_bytes((1 << 14) + 1, 3) * 3 // 4 - 32


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "1 s"),
        (41.4, "41 s"),
        (119, "120 s"),
        (121, "2 min"),
        (4000, "67 min"),
        (9000, "2.5 h"),
        (174, "2.9 min"),
    ],
)
def test_times_have_a_unit_that_fits(seconds: float, text: str):
    assert duration(seconds).endswith(f" {text}")


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 kB"), (4.2e4, "42 kB"), (8.25e7, "82.5 MB"), (1.2e9, "1.2 GB")]
)
def test_sizes_have_a_unit_that_fits(count: float, text: str):
    assert size(count) == text


def test_a_line_has_all_that_is_known_and_nothing_else():
    run = {"bytes": 1.2e9, "memory": 3e8, "rounds": 270}
    line = line_of(run, 40.0, "epsilon 2")
    for part in ("40 s", "1.2 GB", "300 MB", "270 rounds", "epsilon 2"):
        assert part in line
    less = line_of(dict.fromkeys(run), 40.0, "epsilon 2")
    assert "rounds" not in less
    assert "B" not in less


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"epsilon": 2.0, "noise_multiplier": None}, "epsilon 2"),
        ({"private": False, "noise_multiplier": None, "delta": None}, "not private"),
        ({"noise_multiplier": 0.0}, "epsilon infinite"),
    ],
)
def test_the_epsilon_of_a_run_is_told(changed, text):
    assert epsilon_of(settings(**changed)) == text


def test_noise_that_was_given_has_its_epsilon():
    told = epsilon_of(settings(overflow_probability=1e-15))
    assert 0.5 < float(told.removeprefix("epsilon ")) < 20
    assert epsilon_of(settings(steps=100)) == "noise multiplier 4", (
        "which cannot be told stops no run"
    )


class Clock:
    """A clock that is set."""

    now = 10.0

    def __call__(self) -> float:
        """Returns the time."""
        return self.now


def steps_of(ahead: ForecastDisplay, clock: Clock, each: float, steps: int) -> None:
    """Makes steps that take so long."""
    for number in range(1, 4):
        clock.now += each
        ahead({"step": number, "steps": steps, "rounds": 18 * number})


@pytest.mark.parametrize(("each", "lines"), [(1.0, 1), (1.1, 1), (0.3, 2), (5.0, 2)])
def test_a_time_is_corrected_after_the_second_step_if_it_was_wrong(each: float, lines: int):
    clock, shown, said = Clock(), [], []
    ahead = ForecastDisplay(
        settings(steps=100, overflow_probability=1e-15), shown.append, said.append, clock
    )
    run = {"seconds": 101.0, "each": 1.0, "after": 1.0, "rounds": 1, "bytes": 1, "memory": None}
    ahead({"step": 0, "steps": 100, "ahead": run})
    assert not shown, "there is nothing to show yet"
    steps_of(ahead, clock, each, 100)
    assert [event["step"] for event in shown] == [1, 2, 3]
    assert len(said) == lines
    assert "111 s" in said[0] or "110 s" in said[0]
    if lines == 2:
        (total,) = re.findall(r"about ([\d.]+) (?:s|min)", said[1])
        expected = 10 + 100 * each + max(1.0, each)
        assert float(total) == pytest.approx(expected if expected < 120 else expected / 60, rel=0.1)


def test_a_run_of_which_nothing_was_known_has_its_time_told_after_the_second_step():
    clock, said = Clock(), []
    steps_of(ForecastDisplay(settings(), lambda event: None, said.append, clock), clock, 2.0, 10)
    assert len(said) == 1
    assert "30 s" in said[0]


@pytest.mark.parametrize(
    "options", [(), ("--whiten",), ("--open", "each-step"), ("--average", 0.4)]
)
def test_a_run_takes_the_rounds_and_bytes_that_it_said(tmp_path: Path, options):
    """Bytes are those foretold, and headers and keys, a large part where messages are small."""
    run = ("--epsilon", 2, "--delta", 1e-5, "--steps", 4, "--sample-rate", 1, "--parties", 2)
    report = tmp_path / "run.json"
    provider = () if "each-step" in options else ("--provider", "tfp")
    done = pea("train", "--data", "digits", *run, *provider, *options, "--json", report)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stderr.split())
    (rounds,) = re.findall(r"expected: about .*?(\d+) rounds, epsilon 2", text)
    (number, unit) = re.findall(r"expected: about .*?([\d.]+) (kB|MB) a party", text)[0]
    found = json.loads(report.read_text())
    assert int(rounds) == found["rounds"]
    told = float(number) * {"kB": 1e3, "MB": 1e6}[unit]
    assert 0.99 * told <= found["bytes_per_party"] <= 1.01 * told + 40_000


def test_a_plan_says_how_long_a_run_takes_on_a_network(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr("crypten_ext.processes.speed.work", lambda: 1.0)  # always the same machine
    sizes = ("--records", "480,479", "--columns", 64, "--parties", 2, "--open", "each-step")
    run = ("--backend", "crypten", "--noise-multiplier", 4, "--delta", 1e-5, "--steps", 400)
    seconds = {}
    for network in ("loopback", "lan", "wan"):
        report = tmp_path / f"{network}.json"
        typed = ("plan", *sizes, *run, "--network", network, "--json", report)
        call(*typed)
        assert re.search(r"about [\d.]+ (s|min|h), .* rounds, epsilon", capsys.readouterr().out)
        seconds[network] = json.loads(report.read_text())["run"]["seconds"]
    assert seconds["wan"] - seconds["loopback"] > 400 * 0.02 - 2
    assert seconds["wan"] > seconds["lan"]
