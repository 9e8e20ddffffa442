"""Faults made by hand, a row of the table each, and the tests that are to find them.

`python -m tests.mutants` makes each in a copy of the tree and runs its tests there.
"""
