"""The document of the hosts' own tests says of each test that does not pass why."""

import pytest

from tests.hosts.__main__ import DOCUMENT, HOSTS, HostTests, surprises


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_every_listed_test_is_in_the_document_with_its_reason(host: HostTests):
    text = DOCUMENT.read_text()
    assert f"## {host.title}" in text
    for name, (outcome, why) in host.listed.items():
        (row,) = (line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        assert row.endswith(f"| {outcome} | {why} |")


def test_what_is_not_listed_is_a_surprise():
    host = HOSTS["tf-encrypted"]
    found = {name: [outcome, ""] for name, (outcome, _) in host.listed.items()}
    assert surprises(host, {**found, "TestABY3.test_mul": ["passes", ""]}) == []
    first = next(iter(found))
    assert len(surprises(host, {**found, first: ["passes", ""]})) == 1
    (line,) = surprises(host, {**found, "TestABY3.test_mul": ["fails", "AssertionError: 1"]})
    assert "test_mul fails, but passes is listed. AssertionError: 1" in line
