"""A deployment of Flower on loopback: a SuperLink with TLS, and SuperNodes that authenticate."""

import datetime
import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from benchmarks.instruments.child_process import ROOT
from benchmarks.instruments.flower_copies import MODULE as COPIES
from benchmarks.instruments.flower_copies import stand_in
from benchmarks.instruments.ports import free_addresses
from benchmarks.instruments.processes import of_session

LINK = "loopback"
PATIENCE = 900.0
"""Seconds after which something hangs, on a machine however busy."""


def until(happened: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    """Returns once `happened()` is true.

    Raises:
        TimeoutError: it hangs.
    """
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not happen within {seconds:g} s")
        time.sleep(0.05)


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """Writes a root's certificate, and a server's with its key; returns the three files."""
    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, n)]) for n in ("root", "link")]
    found = []
    for place, (key, name) in enumerate(zip(keys, names, strict=True)):
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=place == 0, path_length=None), critical=True)
        )
        if place:
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            builder = builder.add_extension(
                x509.SubjectAlternativeName([address, x509.DNSName("localhost")]), critical=False
            )
        found.append(builder.sign(keys[0], hashes.SHA256()))
    paths = folder / "root.pem", folder / "link.pem", folder / "link.key"
    for path, certificate in zip(paths, found, strict=False):
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[2].write_bytes(
        keys[1].private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


class Deployment:
    """A SuperLink and SuperNodes, each a process with processes of its own.

    Args:
        python: an interpreter whose environment has flwr.
        folder: for keys, certificates, logs and Flower's own files.
        nodes: how many.
        environment: what all processes get besides.
        copied: modules that are imported once, by a process of which all client apps are copies;
            by default each imports what it needs.

    Attributes:
        nodes: how many.
        peers: the folder of the nodes' public keys.
        processes: by name, "link", "node-0", ..., and "apps" of copies; each leads a group.
    """

    def __init__(
        self,
        python: str,
        folder: Path,
        nodes: int,
        environment: Mapping[str, str] | None = None,
        copied: Sequence[str] = (),
    ) -> None:
        self.bin = Path(python).parent
        self.folder = folder
        self.peers = folder / "peers"
        self.peers.mkdir(parents=True)
        (self.address,) = free_addresses(1)
        self.root, self.certificate, self.key = certificates(folder)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._names: dict[int, str] = {}
        self.environment = {
            **os.environ,
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_HOME": str(folder / "home"),
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "OMP_NUM_THREADS": "1",
            **(environment or {}),
        }
        self.nodes = nodes
        for node in range(nodes):
            self._key(node)
        if copied:
            self._begin_copies(python, copied)

    def _begin_copies(self, python: str, modules: Sequence[str]) -> None:
        """Starts the process whose copies serve as client apps."""
        address, commands = self.folder / "apps.socket", self.folder / "bin"
        stand_in(commands, address)
        self.environment["PATH"] = f"{commands}:{self.environment['PATH']}"
        self._start("apps", Path(python).name, "-m", COPIES, str(address), *modules)
        until(address.exists, "the import of what client apps need")

    def _key(self, node: int) -> None:
        """Writes the key by which a SuperNode authenticates, as ssh-keygen would."""
        key = ec.generate_private_key(ec.SECP384R1())
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        own = self.folder / f"node-{node}"
        own.touch(mode=0o600)
        own.write_bytes(private)
        for path in (self.folder / f"node-{node}.pub", self.peers / f"{node}.pub"):
            path.write_bytes(public)

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [str(self.bin / command[0]), *command[1:]],
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        """Returns what a process has said."""
        path = self.folder / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def link(self) -> None:
        """Starts the SuperLink, and makes the SuperNodes' keys known to it."""
        host, port = self.address.split(":")
        self._start(
            "link",
            "flower-superlink",
            *("--host", host, "--port", port),
            *("--ssl-ca-certfile", str(self.root), "--ssl-certfile", str(self.certificate)),
            *("--ssl-keyfile", str(self.key)),
            "--enable-supernode-auth",
            "--disable-runtime-dependency-installation",
        )
        self._configure(f'root-certificates = "{self.root}"')

    def _configure(self, trust: str) -> None:
        """Flower's command knows the SuperLink, and why to trust it, once that listens."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        text = f'[superlink]\ndefault = "{LINK}"\n\n[superlink.{LINK}]\n'
        (home / "config.toml").write_text(text + f'address = "{self.address}"\n{trust}\n')
        until(self._listens, "the SuperLink")

    def _listens(self) -> bool:
        host, port = self.address.split(":")
        with socket.socket() as tried:
            return tried.connect_ex((host, int(port))) == 0

    def flwr(self, *arguments: str) -> str:
        """Returns what Flower's command prints."""
        ran = subprocess.run(
            [str(self.bin / "flwr"), *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"flwr {arguments[0]} failed: {ran.stdout}{ran.stderr}")
        return ran.stdout

    def begin(self) -> None:
        """Starts the SuperLink and all SuperNodes, and returns once it says they are connected."""
        self.link()
        nodes = range(self.nodes)
        with ThreadPoolExecutor(os.cpu_count()) as side:
            list(side.map(self.register, nodes))
        for node in nodes:
            self.node(node)
        until(self._all_connected, "a connection of all SuperNodes")

    def _all_connected(self) -> bool:
        for node in range(self.nodes):
            self._restart_if_its_port_is_taken(node)
        return self.connected() >= set(range(self.nodes))

    def _restart_if_its_port_is_taken(self, node: int) -> None:
        """Starts a SuperNode again whose port another process took before it could."""
        process = self.processes[f"node-{node}"]
        if process.poll() is None:
            return
        said = self.log(f"node-{node}")
        if "address already in use" not in said:
            raise RuntimeError(f"SuperNode {node} ended with {process.returncode}: {said[-2000:]}")
        self.node(node)

    def connected(self) -> set[int]:
        """Returns the SuperNodes of which the SuperLink says that they are connected."""
        listed = json.loads(self.flwr("supernode", "list", LINK, "--format", "json"))["nodes"]
        states = {each["node-id"]: each["status"] for each in listed}
        return {node for node, name in self._names.items() if states[name] == "online"}

    def register(self, node: int) -> None:
        """Makes a SuperNode's key known to the SuperLink."""
        key = str(self.folder / f"node-{node}.pub")
        said = self.flwr("supernode", "register", key, LINK, "--format", "json")
        self._names[node] = str(json.loads(said)["node-id"])

    def node(self, node: int) -> None:
        """Starts a SuperNode, whose key is the one by which it authenticates."""
        key = self.folder / f"node-{node}"
        config = f'partition-id={node} fl-peers="{self.peers}" fl-key="{key}" '
        config += f'fl-notes="{self.folder / "notes"}"'
        self._start(
            f"node-{node}",
            "flower-supernode",
            *("--superlink", self.address, "--root-certificates", str(self.root)),
            *("--auth-supernode-private-key", str(key)),
            *("--node-config", config),
            *("--port", free_addresses(1)[0].rpartition(":")[2]),
        )

    def run(self, app: Path, **config: Any) -> str:
        """Submits an app, and returns the number of its run."""
        given = " ".join(f"{name.replace('_', '-')}={json.dumps(v)}" for name, v in config.items())
        said = self.flwr("run", str(app), LINK, "--run-config", given)
        found = re.search(r"run (\d+)", said)
        if found is None:
            raise RuntimeError(f"flwr run names no run: {said}")
        return found[1]

    def seconds(self, name: str) -> float:
        """Returns the processor time of a process and of all that it started, so far."""
        return of_session(self.processes[name].pid)[0]

    def kill(self, name: str) -> None:
        """Ends a process and all that it started, at once."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def end(self) -> None:
        """Ends all."""
        for name in list(self.processes):
            self.kill(name)
