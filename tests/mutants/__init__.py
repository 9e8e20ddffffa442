"""Faults made by hand, a patch each, and the tests that are to find them.

`python -m tests.mutants` applies each to a copy of the tree and runs its tests there.
"""
