"""Two parties and CrypTen's trusted third party: three processes; run as a script, one of them."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.conformance.recipes import RECIPES

ROOT = Path(__file__).resolve().parents[2]
PARTIES = 2

Job = tuple[str, list[Any], dict[str, Any]]


def evaluate(folder: Path, jobs: list[Job], seconds: float) -> list[list[Any]]:
    """Returns the opened results of each (recipe, inputs, options) job, at f = 16."""
    (folder / "jobs").write_bytes(pickle.dumps(jobs))
    processes = [_start(folder, rank) for rank in range(PARTIES + 1)]
    deadline = time.monotonic() + seconds
    try:
        while any(p.poll() is None for p in processes) and not any(p.poll() for p in processes):
            assert time.monotonic() < deadline, f"not finished: {_errors(folder)}"
            time.sleep(0.05)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [p.returncode for p in processes] == [0] * len(processes), _errors(folder)
    results: list[list[Any]] = pickle.loads((folder / "results").read_bytes())
    return results


def _start(folder: Path, rank: int) -> subprocess.Popen[bytes]:
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "DISTRIBUTED_BACKEND": "gloo",
        "GLOO_SOCKET_IFNAME": "lo" if sys.platform == "linux" else "lo0",
        "RENDEZVOUS": f"file://{folder}/rendezvous",
        "WORLD_SIZE": str(PARTIES),
        "RANK": str(rank),
        "OMP_NUM_THREADS": "1",
    }
    with (folder / f"errors{rank}").open("wb") as errors:
        command = [sys.executable, "-m", __name__, str(folder)]
        return subprocess.Popen(command, env=environment, stderr=errors)


def _errors(folder: Path) -> str:
    return "\n".join(path.read_text()[-2000:] for path in sorted(folder.glob("errors*")))


def main(folder: Path) -> None:
    from crypten_ext.ring import CrypTenRing
    from tests.conformance.parties import reveal, share

    import crypten

    crypten.cfg.mpc.provider = "TTP"
    rank = int(os.environ["RANK"])
    if rank == PARTIES:
        crypten.mpc.provider.TTPServer()
        return
    crypten.init()
    ring, results = CrypTenRing(16), []
    for recipe, inputs, options in pickle.loads((folder / "jobs").read_bytes()):
        shares = [share(x if rank == 0 else x.shape) for x in inputs]
        results.append(reveal(RECIPES[recipe](ring, *shares, **options)))
    if rank == 0:
        (folder / "results").write_bytes(pickle.dumps(results))
    crypten.uninit()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
