"""Services of examples/deployment/compose.yaml as containers of podman, each on a host of its own.

There is no image: a container's root has this interpreter and this project, read only, at the
places where they are here. All else is what the service says.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.helpers.commands import PROGRAM
from tests.helpers.paths import ROOT

COMPOSE = ROOT / "examples" / "deployment" / "compose.yaml"
_OPTIONS = {
    "user": "--user",
    "security_opt": "--security-opt",
    "cap_drop": "--cap-drop",
    "tmpfs": "--tmpfs",
    "mem_limit": "--memory",
    "pids_limit": "--pids-limit",
    "working_dir": "--workdir",
    "volumes": "--volume",
}
"""By what a service says, podman's option that takes it."""
_FLAGS = {"read_only": "--read-only", "init": "--init"}
_ELSEWHERE = {"image", "profiles", "environment", "ports", "command", "restart"}
"""What is done otherwise here, or by whoever starts a container again."""
_LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"}
_ALONE = 'umount -l /sys/fs/cgroup/unified 2>/dev/null || true; exec "$@"'
"""crun takes either kind of control groups, but not both."""


class Containers:
    """Starts services.

    Args:
        folder: for the root of all containers and what podman keeps.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._root = folder / "root"
        for name in ("data", "dev", "etc", "proc", "run", "sys", "tmp", "usr", "var"):
            (self._root / name).mkdir(parents=True)
        for name, target in _LINKS.items():
            (self._root / name).symlink_to(target)
        self._mounts = [Path("/usr"), *_places()]
        for place in self._mounts:
            (self._root / place.relative_to("/")).mkdir(parents=True, exist_ok=True)

    def podman(self, *arguments: str) -> list[str]:
        """Returns the command that runs podman by itself."""
        kept = ("--root", str(self._folder / "kept"), "--runroot", str(self._folder / "runs"))
        own = ("--storage-driver", "vfs", "--cgroup-manager", "cgroupfs")
        alone = ("unshare", "--mount", "bash", "-c", _ALONE, "podman")
        return [*alone, "podman", *kept, *own, *arguments]

    def run(self, *options: str, program: list[str]) -> list[str]:
        """Returns the command that runs a program in a container."""
        limits = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
        mounts = [word for one in self._mounts for word in ("--volume", f"{one}:{one}:ro")]
        fixed = ("run", "--rm", "--log-driver", "none", *limits, *mounts)
        return self.podman(*fixed, *options, "--rootfs", str(self._root), *program)

    def work(self) -> bool:
        """Whether podman is here and runs them."""
        if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("podman") is None:
            return False
        command = self.run("--network", "none", "--init", program=["true"])
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def start(
        self, service: str, space: str, folder: Path, **given: str
    ) -> "subprocess.Popen[str]":
        """Starts a service on a host, with its operator's folder and environment."""
        says = yaml.safe_load(COMPOSE.read_text())["services"][service]
        options = ["--network", f"ns:/run/netns/{space}"]
        for name, value in says.items():
            if name in _FLAGS:
                options += [_FLAGS[name]] if value else []
            elif name not in _ELSEWHERE:
                for one in value if isinstance(value, list) else [value]:
                    options += [_OPTIONS[name], _filled(one, FOLDER=str(folder), **given)]
        for name, value in says["environment"].items():
            options += ["--env", f"{name}={value}"]
        typed = shlex.split(_filled(says["command"], **given))
        return subprocess.Popen(
            self.run(*options, program=[sys.executable, "-c", PROGRAM, *typed]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


def _filled(text: Any, **given: str) -> str:
    """Returns a text with the environment's variables, or their defaults, in their places."""
    return re.sub(r"\$\{(\w+)(?::-([^}]*))?\}", lambda m: given.get(m[1], m[2]), str(text))


def _places() -> list[Path]:
    """Where this interpreter, its packages and this project are, outside of /usr."""
    paths = {Path(one).resolve() for one in (ROOT, sys.prefix, sys.base_prefix, *sys.path) if one}
    paths = {one for one in paths if one.is_dir() and not one.is_relative_to("/usr")}
    return sorted(one for one in paths if not paths & {*one.parents})
