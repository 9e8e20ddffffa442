"""Noise that was drawn while its owner waited is used once, for what it was drawn for."""

import numpy as np
import pytest

from extensions.privacy.randomness import DrawnAhead

FIRST, SECOND = (0, 3.0, (4,)), (0, 5.0, (2, 2))


class Numbered:
    """Draws 1, 2, 3 and so on, and notes what for."""

    def __init__(self):
        self.asked = []

    def gaussian(self, party, scale, shape):
        self.asked.append((party, scale, shape))
        return np.full(shape, len(self.asked))

    def bernoulli(self, party, probability, size):
        return np.full(size, probability == 1.0)


@pytest.fixture
def made():
    numbered = Numbered()
    return DrawnAhead(numbered), numbered.asked


def test_a_step_has_what_was_drawn_for_it_and_none_has_it_twice(made):
    source, asked = made
    seen = []
    for drawn in (0, 2, 4, 6):
        source.draw()
        assert len(asked) == drawn + 2 * (drawn > 0)
        for wanted in (FIRST, SECOND):
            noise = source.gaussian(*wanted)
            assert noise.shape == wanted[2]
            (number,) = {*noise.ravel().tolist()}
            assert asked[number - 1] == wanted
            seen.append(number)
        assert len(asked) == drawn + 2
    assert len({*seen}) == len(seen) == 8


def test_what_is_asked_for_beyond_that_is_drawn_anew(made):
    source, asked = made
    source.gaussian(*FIRST)
    source.draw()
    numbers = [int(source.gaussian(*FIRST)[0]) for _ in range(3)]
    assert numbers == [2, 3, 4]
    assert len(asked) == 4


@pytest.mark.parametrize("other", [(1, 3.0, (4,)), (0, 3.5, (4,)), (0, 3.0, (2, 2)), SECOND])
def test_for_anything_else_what_was_drawn_is_dropped(made, other):
    source, _ = made
    source.gaussian(*FIRST)
    source.gaussian(*SECOND)
    source.draw()  # numbers 3 and 4
    assert [int(source.gaussian(*wanted).flat[0]) for wanted in (other, FIRST, SECOND)] == [5, 6, 7]


def test_samples_are_drawn_when_they_are_asked_for(made):
    source, asked = made
    assert source.bernoulli(0, 1.0, 3).all()
    source.draw()
    assert asked == []
