"""A silent process is told from a busy machine by the signs of life of the others."""

from types import SimpleNamespace

import pytest

from extensions.runs.processes import Silences
from extensions.runs.processes.channel import BEAT_INTERVAL


class Beating:
    """Processes that gave a sign of life each, and a launcher that looks ten times a second."""

    def __init__(self, count: int, signs: int = 1) -> None:
        self.processes = [SimpleNamespace(signs=signs, status=None) for _ in range(count)]
        self.silences = Silences(self.processes, silence=20.0, starting=120.0)

    def pass_time(self, seconds: float, *alive: int, slowness: float = 1.0):
        """What is lost first, if these give signs of life, each `slowness` times as late."""
        interval = round(10 * BEAT_INTERVAL * slowness)
        for tick in range(round(10 * seconds)):
            for number in alive:
                self.processes[number].signs += tick % interval == 0
            if lost := self.silences.lost(0.1):
                return lost
        return None


def test_nobody_is_lost_while_all_give_signs_of_life_however_late():
    assert Beating(3).pass_time(2000, 0, 1, 2) is None
    assert Beating(3).pass_time(2000, 0, 1, 2, slowness=50) is None


@pytest.mark.parametrize("slowness", [1.0, 15.0])
def test_the_one_that_falls_behind_is_lost(slowness):
    """Those before and after it are late as well, and later than its limit, but not behind."""
    three = Beating(3)
    assert three.pass_time(18 * slowness, 0, 2, slowness=slowness) is None
    assert three.pass_time(3 * slowness, 0, 2, slowness=slowness) == (
        1,
        "stopped answering for 20 s",
    )


def test_one_that_answers_in_time_starts_anew():
    two = Beating(2)
    for _ in range(5):
        assert two.pass_time(15, 0) is None
        assert two.pass_time(1, 0, 1) is None


def test_a_process_that_never_begins_is_lost():
    two = Beating(2)
    two.processes[1].signs = 0
    two.silences = Silences(two.processes, silence=20.0, starting=120.0)
    assert two.pass_time(118, 0) is None
    assert two.pass_time(4, 0) == (1, "gave no sign of life within 120 s of its start")


def test_nobody_is_lost_while_nobody_has_begun():
    assert Beating(2, signs=0).pass_time(2000) is None


def test_where_all_are_silent_they_have_six_times_as_long():
    two = Beating(2)
    assert two.pass_time(119) is None
    assert two.pass_time(2) == (0, "and all others stopped answering for 120 s")


def test_one_that_is_alone_is_lost_by_the_clock():
    one = Beating(1)
    assert one.pass_time(19) is None
    assert one.pass_time(2) == (0, "stopped answering for 20 s")
    begins = Beating(1, signs=0)
    assert begins.pass_time(121) == (0, "gave no sign of life within 120 s of its start")


def test_one_that_has_ended_is_not_silent():
    two = Beating(2)
    two.processes[1].status = 0
    assert two.pass_time(2000, 0) is None
