"""Makes the pictures of pages in docs/images anew: `PEA_DATA=DATA python docs/site/screenshots.py`.

DATA has adult/adult.csv.gz. Needs `pea`, Chromium, and the extra "explain"; takes a minute. The
model is trained on all of Adult at epsilon 1, so pictures differ by its noise from time to time.
"""

import gzip
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).resolve().parents[1] / "images"
PROGRAM = "from extensions.cli.main import main; main()"
BROWSER = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
SHOTS = (("report", 1280, 1500), ("report", 400, 1100), ("curves", 1280, 1200))
"""Pages, and width and height in pixels."""
COLORS = 48


def pea(folder: Path, *words: object) -> str:
    """Returns what the command prints."""
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def write_pages(folder: Path) -> None:
    """Writes report.html and curves.html of one run."""
    table = Path(os.environ["PEA_DATA"], "adult", "adult.csv.gz")
    (folder / "adult.csv").write_bytes(gzip.decompress(table.read_bytes()))
    draft = pea(folder, "schema", "--from", "adult.csv", "--target", "Salary")
    (folder / "schema.toml").write_text(draft.replace('basis = "draft"', 'basis = "public"'))
    run = ("--schema", "schema.toml", "--data", "csv:adult.csv", "--budget", "none")
    private = ("--epsilon", 1, "--delta", 1e-5, "--open", "each-step", "--evaluate", "noisy")
    pea(folder, "train", *run, *private, "--save", "model", "--json", "report.json")
    pea(folder, "report", "report.json", "--html", "report.html")
    pea(folder, "explain", "--model", "model/model.npz", "--out", "curves.html")


def shoot(folder: Path, shots: Sequence[tuple[str, int, int]] = SHOTS) -> None:
    """Writes a picture of few colours for each page and width."""
    for name, width, height in shots:
        target = folder / "shot.png"
        size = f"--window-size={width},{height}"
        page = (folder / f"{name}.html").as_uri()
        subprocess.run([*BROWSER, size, f"--screenshot={target}", page], check=True)
        picture = Image.open(target).convert("RGB").quantize(COLORS)
        picture.save(IMAGES / f"{name}-{width}.png", optimize=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        write_pages(Path(place))
        shoot(Path(place))
