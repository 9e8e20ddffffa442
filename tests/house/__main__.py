"""Writes what breaks the rules today: ``python -m tests.house --write``; without it, shows it."""

import json
import sys

from tests.house.rules import EXCEPTIONS, RULES, budgets, size_of


def main() -> None:
    """Shows rooms and exceptions, or writes the exceptions."""
    found = {name: sorted(rule()) for name, rule in RULES.items()}
    for room, most in budgets().items():
        print(f"{room:32} {size_of(room):7,} of {most:7,} lines")
    for name, each in found.items():
        print(f"{name}: {len(each)}")
    if "--write" in sys.argv[1:]:
        EXCEPTIONS.write_text(json.dumps(found, indent=1) + "\n")


main()
