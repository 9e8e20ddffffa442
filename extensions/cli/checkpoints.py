"""How the `pea` command says that a run which is kept goes on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from extensions.errors import LostError


@contextmanager
def resume_hint(kept: Path | None, *, at_players: bool = False) -> Iterator[None]:
    """Adds the command that resumes the run to the error of a lost process, or to Ctrl-C.

    Args:
        kept: the run's checkpoint, a file or a folder of them; None or empty: nothing is kept.
        at_players: whether it is a folder that every player has, of which this program sees none.
    """
    try:
        yield
    except (LostError, KeyboardInterrupt) as error:
        command = "give the same command with --resume."
        if kept is not None and at_players:
            error.add_note(f"What players keep in {kept} is not lost: {command}")
        elif kept is not None and (kept.is_file() or any(kept.glob("*"))):
            error.add_note(f"What {kept} keeps is not lost: {command}")
        raise
