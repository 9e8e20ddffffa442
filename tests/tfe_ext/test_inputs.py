"""What an owner gives is in no other player's memory; keys, shares and noise are their holders'.

Players are processes of their own. A row of records begins with a number that all rows have, and
goes on with one of its own, by which it is known wherever it lies: in a definition of a function,
in a freed message, or in the memory of who computes with it. The script's own process may have the
rows that the script has.
"""

import secrets

import numpy as np
import pytest

from tests.helpers.claims import claim
from tests.helpers.memory import found_in
from tests.tfe_ext.test_compat import needs_tensorflow

TASKS = "tests.helpers.tfe_tasks.inputs"
UNIT, FINE = 2.0**-20, 2.0**-29
"""Of the ring, and of what is below it: less than a quarter of a unit, which encoding drops.

A number alone has 49 random bits so. With 22 of them a player's memory of 74 MB holds some 200 of
all numbers, one of which may be taken for a leak, once in some thousand runs.
"""
FORMS = {"numbers": ("<f8", 1.0), "short numbers": ("<f4", 1.0), "encoded": ("<i8", UNIT)}
SCATTERED = ("scalars", "number_as_argument")


class Rows:
    """Rows by name, and who has them.

    Args:
        names: of the rows.
        scattered: of those whose numbers are not side by side where they lie.
    """

    def __init__(self, names, scattered=()):
        numbers = {(1 << 22) + secrets.randbelow(1 << 22) for _ in range(4 * len(names))}
        head, *own = ((number + secrets.randbelow(1 << 27) * FINE) * UNIT for number in numbers)
        self.rows = {name: [head, x, head] for name, x in zip(names, own, strict=False)}
        self._heads = [_bytes([head], form) for form in FORMS]
        self._known = {
            _bytes(row[:2], form): name for name, row in self.rows.items() for form in FORMS
        }
        for name in scattered:
            number = _bytes(self.rows[name][1:2], "numbers")
            self._heads.append(number)
            self._known[number] = name

    def found(self, processes):
        """Returns by process the names of the rows that are in its memory."""
        lengths = {len(known) for known in self._known}
        found = {}
        for process, pid in processes.items():
            words = found_in(pid, self._heads, max(lengths))
            starts = {word[:length] for word in words for length in lengths}
            found[process] = {name for known, name in self._known.items() if known in starts}
        return found


def _bytes(numbers, form):
    kind, unit = FORMS[form]
    return (np.array(numbers) / unit).astype(kind).tobytes()


def everybody(players, session):
    """Ids of the players' processes, and of the script's."""
    _, (_, pids) = players
    return {**pids, "script": session.pid}


@claim("What an owner gives is in this owner's memory only.")
@needs_tensorflow
def test_what_an_owner_gives_is_in_no_other_players_memory(players, tfe_players, tmp_path):
    names = tfe_players.run(f"{TASKS}:names")
    rows = Rows([*names["given"], *names["refused"], "file"], SCATTERED)
    file = tmp_path / "records"
    file.write_bytes(np.array(rows.rows["file"]).tobytes())
    given = {name: row for name, row in rows.rows.items() if name != "file"}
    tfe_players.run(f"{TASKS}:run_given", rows=given, file=str(file))
    tfe_players.run(f"{TASKS}:run_refused", rows=given)
    assert tfe_players.run(f"{TASKS}:in_definitions", rows=given) == []
    found = rows.found(everybody(players, tfe_players))
    assert len(found["owner"]) >= 20, "what computed with the rows has some of them still"
    assert "file" not in found["script"]
    assert found["server0"] == found["server1"] == found["server2"] == set()


@needs_tensorflow
def test_a_constant_of_a_function_of_ones_own_would_be_found(players, tfe_players):
    rows = Rows(["careless"])
    tfe_players.run(f"{TASKS}:careless", row=rows.rows["careless"])
    (found,) = tfe_players.run(f"{TASKS}:in_definitions", rows=rows.rows)
    assert found.startswith("careless in ")
    _, (_, pids) = players
    assert rows.found({"server0": pids["server0"]}) == {"server0": {"careless"}}


@claim("What an owner gives is in this owner's memory only.")
@needs_tensorflow
@pytest.mark.long
def test_what_is_trained_on_is_in_no_other_players_memory(players, tfe_players):
    rows = Rows(tfe_players.run(f"{TASKS}:names")["trained"])
    tfe_players.run(f"{TASKS}:run_trained", rows=rows.rows)
    assert tfe_players.run(f"{TASKS}:in_definitions", rows=rows.rows) == []
    found = rows.found(everybody(players, tfe_players))
    assert found["owner"] >= {"fit", "initialize_from"}
    assert found["server0"] == found["server1"] == found["server2"] == set()


@claim("Keys, shares and noise are in their holders' memory only.")
@needs_tensorflow
@pytest.mark.long
def test_keys_shares_and_noise_are_in_their_holders_memory_alone(players, tfe_players):
    """The owner knows the shares of what it gives."""
    secrets_by_name = tfe_players.run(f"{TASKS}:secrets_of_servers")
    _, (_, pids) = players
    words = {name: bytes.fromhex(word) for name, (word, _) in secrets_by_name.items()}
    for player, pid in pids.items():
        found = found_in(pid, [*words.values()], 32)
        holds = {name for name, word in words.items() if word in found}
        own = {name for name in holds if player == "owner" and name.startswith("share")}
        assert holds - own == {name for name, (_, who) in secrets_by_name.items() if player in who}


@needs_tensorflow
def test_constants_on_an_owners_device_go_with_their_function(tfe_players):
    tfe_players.run(f"{TASKS}:constants_go_with_their_function")
