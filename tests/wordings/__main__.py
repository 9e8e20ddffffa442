"""Renews the snapshot."""

from tests.wordings import SNAPSHOT, wordings

SNAPSHOT.write_text("\n".join(wordings()) + "\n")
