"""The document of the hosts' own tests tells of each part, and of each test that fails why."""

import re
import unittest
from types import SimpleNamespace
from typing import Any

import pytest

from tests.hosts.__main__ import DOCUMENT, HOSTS, HostTests, named, page, surprises
from tests.hosts.crypten_tests import notice_deaths
from tests.hosts.results import Outcome


def document(host: HostTests) -> str:
    """Returns what the document says of one host."""
    _, _, rest = DOCUMENT.read_text().partition(f"## {host.title}\n")
    assert rest
    return rest.partition("\n## ")[0]


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_every_listed_test_is_in_the_document_with_its_reason(host: HostTests):
    rows = document(host).splitlines()
    for name, (outcome, why) in host.listed.items():
        (row,) = (line for line in rows if line.startswith(f"| `{name}` |"))
        assert row.endswith(f"| {outcome} | {why} |")


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_the_parts_of_the_document_are_those_that_run_and_add_up(host: HostTests):
    text = document(host)
    rows = re.findall(r"^\| `(\S+)` \| (\d+) \| (\d+) \| [\d,]+ \|$", text, re.MULTILINE)
    assert [part for part, _, _ in rows] == list(host.parts)
    tests, passing = (sum(int(row[i]) for row in rows) for i in (1, 2))
    assert f"\n{passing} of {tests} tests pass: {host.what}\n" in text
    listed = re.findall(r"^\| `\S+` \| (\d+) \| (?:fails|skipped) \|", text, re.MULTILINE)
    assert sum(map(int, listed)) == tests - passing


def test_what_is_not_listed_is_a_surprise():
    host = HOSTS["tf-encrypted"]
    found = {name: Outcome(outcome) for name, (outcome, _) in host.listed.items()}
    assert surprises(host, {**found, "TestABY3.test_mul": Outcome("passes")}) == []
    first = next(iter(found))
    assert len(surprises(host, {**found, first: Outcome("passes")})) == 1
    failed = Outcome("fails", "AssertionError: 1")
    (line,) = surprises(host, {**found, "TestABY3.test_mul": failed})
    assert "test_mul fails, but passes is listed. AssertionError: 1" in line


def test_a_page_counts_each_part_and_all():
    host = HOSTS["tf-encrypted"]
    listed = next(iter(host.listed))
    parts = {
        "First": {"First.test_a": Outcome("passes", "", 700.4), listed: Outcome("fails", "", 0.2)},
        "Second": {"Second.test_b": Outcome("passes", "", 600.0)},
    }
    lines = page(host, parts)
    assert lines[2].startswith("2 of 3 tests pass: ")
    assert "| `First` | 2 | 1 | 701 |" in lines
    assert "| `Second` | 1 | 1 | 600 |" in lines
    assert "| all | 3 | 2 | 1,301 |" in lines
    assert sum(line.startswith(f"| `{listed}` | 1 | fails |") for line in lines) == 1


def test_tests_that_run_in_two_ways_count_twice():
    read = {"test_a.TestA.test_b": ["passes", "", 1.0]}
    parts = {part: named(part, read) for part in ("test_a", "tls:test_a")}
    assert page(HOSTS["crypten"], parts)[2].startswith("2 of 2 tests pass: ")


@pytest.mark.parametrize(("status", "passes"), [(0, True), (1, False), (-9, False)])
def test_a_test_whose_process_died_fails(status: int, passes: bool):
    class Case(unittest.TestCase):
        processes: Any = (SimpleNamespace(name="Process 0", exitcode=status),)

        def _join_processes(self, fn: Any) -> None:
            """As the host's, which finds no exception."""

        def runTest(self) -> None:
            self._join_processes(None)

    notice_deaths(Case)
    assert Case().run().wasSuccessful() == passes  # type: ignore[union-attr]
