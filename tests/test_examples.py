"""Every public name that the reference documents has an example that runs."""

import pytest

from tests.helpers.examples import example, failures, pages, prose
from tests.house.words import measure
from tests.tfe_ext.test_compat import needs_tensorflow

HERE = ("estimator", "extensions", "fl", "fl_aggregators", "fl_protocols")
PARTIES, SERVERS = ("crypten_ext", "crypten_nn"), ("keras", "tfe_ext")


def test_pages_have_all_names_that_users_meet():
    assert {*pages()} == {*HERE, *PARTIES, *SERVERS}
    names = [name for page in pages().values() for name in page]
    assert len(names) == len({*names}) >= 120


@pytest.mark.parametrize("page", HERE)
def test_examples_run(page):
    assert [name for name in pages()[page] if not example(name).examples] == []
    assert failures(page) == ""
    assert measure(prose(page)).reads_well, measure(prose(page))


@pytest.mark.parametrize("page", PARTIES)
def test_examples_of_scripts_run_at_each_party(page, pools):
    pytest.importorskip("crypten_ext.nn")
    assert [name for name in pages()[page] if not example(name).examples] == []
    assert measure(prose(page)).reads_well, measure(prose(page))
    assert pools.run(2, "tests.helpers.party_tasks.examples:failures", page=page) == ["", ""]


@needs_tensorflow
@pytest.mark.parametrize("page", SERVERS)
def test_examples_of_sessions_run(page, tfe_process):
    assert tfe_process.run("tests.helpers.tfe_tasks.command:examples_without", page=page) == []
    assert measure(tfe_process.run("tests.helpers.examples:prose", page=page)).reads_well
    assert tfe_process.run("tests.helpers.tfe_tasks.command:failing_examples", page=page) == ""
