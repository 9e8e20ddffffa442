"""A statement is found where it is named, in any format, and replaced there and nowhere else."""

import ast

import pytest

from tests.mutants.edits import Edit, apply

PROGRAM = '''
limit = 3

class Door:
    @property
    def width(self):
        return self._width  # in metres

    @width.setter
    def width(self, value):
        if (value
                < 0):
            raise ValueError("narrow")
        elif value > limit:
            value = limit
        else:
            self.wide = True
        self._width = value

    def open(self):
        """Opens it."""
        def push():
            self.count += 1
            return self.count
        try:
            push()
        except OSError as error:
            raise TimeoutError from error
        return self.count

def shut(door):
    del door
    pass
    pass
'''


def changed(*edits):
    """Returns the program after the edits, each (at, old, new)."""
    program = ast.parse(PROGRAM)
    apply([Edit(at=at, old=old, new=new) for at, old, new in edits], program)
    return ast.unparse(program)


@pytest.mark.parametrize(
    ("at", "old", "new", "before", "after"),
    [
        ("m", "limit=3", "limit = 4", "limit = 3", "limit = 4"),
        ("m:Door.width", "return (self._width)", "return 1", "return self._width", "return 1"),
        (
            "m:Door.open",
            "return self.count",
            "return 0",
            "\n        return self.count",
            "\n        return 0",
        ),
        (
            "m:Door.open.push",
            "return self.count",
            "return 0",
            "    return self.count\n        try",
            "    return 0\n        try",
        ),
        ("m:Door.open", "def push(): ...", "def push(by=1): ...", "push():", "push(by=1):"),
        (
            "m:Door",
            "@property\ndef width(self): ...",
            "@cache\ndef width(self): ...",
            "@property",
            "@cache",
        ),
        ("m:shut", "del door", "del door\nexit()", "del door", "del door\n    exit()"),
    ],
)
def test_a_statement_is_replaced(at, old, new, before, after):
    program = ast.unparse(ast.parse(PROGRAM))
    assert program.count(before) == 1
    assert changed((at, old, new)) == program.replace(before, after)


def test_dots_are_the_bodies_that_they_stand_for():
    old = "if value < 0: ...\nelif value > limit: ...\nelse: ..."
    new = "if value: ...\nelse: ..."
    body = changed(("m:Door.width", old, new)).split("def width")[2]
    assert "if value:\n            raise ValueError('narrow')\n" in body
    assert "        else:\n            value = limit\n" in body
    assert "self.wide" not in body
    handler = ("m:Door.open", "try: ...\nexcept OSError as error: ...", "...")
    assert "return self.count\n        push()\n        return self.count" in changed(handler)


def test_without_dots_bodies_count():
    with pytest.raises(LookupError, match="^0 statements"):
        changed(("m:Door.width", "if value < 0: ...", ""))
    with pytest.raises(LookupError, match="^0 statements"):
        changed(("m:Door.open", "def push(): return self.count", ""))


@pytest.mark.parametrize(
    ("at", "old", "count"),
    [
        ("m", "limit = 4", 0),
        ("m", "limit = 3.0", 0),
        ("m:Door", "limit = 3", 0),
        ("m:Window.open", "return self.count", 0),
        ("m:Door.push", "return self.count", 0),
        ("m:shut", "pass", 2),
        ("m:Door", "def close(self): ...", 0),
    ],
)
def test_what_is_not_there_once_is_refused(at, old, count):
    with pytest.raises(LookupError, match=f"^{count} statements in {at} are: "):
        changed((at, old, ""))


def test_a_body_of_which_nothing_is_left_passes():
    gone = changed(
        ("m:Door.open.push", "self.count += 1", ""), ("m:Door.open.push", "return self.count", "")
    )
    assert "def push():\n            pass\n" in gone
    assert "del door" not in (gone := changed(("m:shut", "del door", "")))
    assert gone.endswith("def shut(door):\n    pass\n    pass")


def test_edits_find_what_was_there_before():
    one, two = "self.count += 1", "return self.count"
    swapped = changed(("m:Door.open.push", one, two), ("m:Door.open.push", two, one))
    assert "def push():\n            return self.count\n            self.count += 1\n" in swapped


def test_an_edit_within_a_body_that_stays_is_made_too():
    edits = [
        ("m:Door.open", "try: ...\nexcept OSError as error: ...", "try: ...\nfinally: ..."),
        ("m:Door.open", "push()", "self.push()"),
    ]
    assert "try:\n            self.push()\n        finally:\n            raise" in changed(*edits)


def test_a_package_is_a_module_too(tmp_path):
    (tmp_path / "one" / "two").mkdir(parents=True)
    where = {at: Edit(at=at, old="", new="").file(tmp_path) for at in ("one.two:f", "one.three")}
    assert where["one.two:f"] == tmp_path / "one" / "two" / "__init__.py"
    assert where["one.three"] == tmp_path / "one" / "three.py"
