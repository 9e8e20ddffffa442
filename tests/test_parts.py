"""The parts of the tests are all of them, and what ran is added up as pytest says it."""

from collections import Counter

import pytest

from tests import conftest, parts


def test_a_test_is_of_one_part_which_collects_its_file(request):
    assert [*parts.PARTS] == [*conftest.PARTS]
    for item in request.session.items:
        part = conftest._part_of(item)
        held = [each for each in parts.PARTS if conftest._may_hold(item.path, each)]
        assert part in held, item.nodeid


@pytest.mark.parametrize(
    ("closing", "counts"),
    [
        ("= 1 failed, 39 passed, 2 warnings in 0.55s =", {"failed": 1, "passed": 39, "warning": 2}),
        ("=== 3 passed, 1 error in 61.00s (0:01:01) ===", {"passed": 3, "error": 1}),
        ("=== 2 passed, 7 deselected in 1.00s ===", {"passed": 2, "deselected": 7}),
        ("=== no tests ran in 0.01s ===", {}),
        ("", {}),
    ],
)
def test_what_ran_is_counted(closing, counts):
    assert parts.counted(closing) == Counter(counts)
    assert parts.counted(parts.closing_line(Counter(counts), 2.0)) == Counter(counts)


@pytest.mark.parametrize(
    ("options", "failed"),
    [
        (["tests/test_style.py", "-k", "parameters"], False),
        (["tests/test_style.py", "-k", "nothing_of_that_name"], True),
        (["tests/no_such_file.py"], True),
    ],
)
def test_a_part_without_tests_fails(options, failed, capfd):
    status, closing = parts.run_part("core", "core ", [*options, "-n", "0"])
    assert bool(status) == failed
    assert bool(parts.counted(closing)["passed"]) != failed
    assert all(line.startswith("core ") for line in capfd.readouterr().out.splitlines())
