"""Writes figures as small files that depend on what they show alone."""

import re
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure
from PIL import Image

_TAG, _MORE = re.compile(r"<[^!>][^>]*>"), re.compile(r"(?<=\d\.\d\d)\d+")


def write_svg(figure: Figure, path: Path) -> None:
    """Writes text as text, and places to a hundredth of a point."""
    with rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None, "Creator": None})
    path.write_text(_TAG.sub(lambda tag: _MORE.sub("", tag[0]), path.read_text()))


def write_png(figure: Figure, path: Path, *, dpi: int = 100) -> None:
    """Writes an image of at most 256 colours."""
    figure.savefig(path, dpi=dpi)
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(256)
    small.save(path, optimize=True)
