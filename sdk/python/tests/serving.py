"""`ringfence serve` as a test starts it, and a relay in front of it that can break connections."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

BUILT = sorted(Path(__file__).parents[3].glob("target/*/debug/ringfence"))
BINARY = os.environ.get("RINGFENCE_BINARY") or str(BUILT[-1] if BUILT else "ringfence")


# Whoever has such a name must ask a person for everything.
CONFIG = """
[[actions.rules]]
name = "one ends what one made"
then = "allow"
kinds = ["sandbox.delete"]

[[actions.rules]]
name = "asks"
then = "ask"
users = ["asks*"]

[roles.operator.skills]
see = ["*"]
publish = ["team"]
overwrite = ["team"]

[roles.operator.ceiling]
profile = "moderate"
[roles.operator.ceiling.filesystem]
toolchains = false
[roles.operator.ceiling.network]
allow = ["api.example.com"]
"""


class Server:
    """Ended with the test's process, also when that is killed: the kernel sends the signal."""

    def __init__(self, directory: Path, *flags: str, config: str = CONFIG) -> None:
        self.directory = directory
        self._flags = flags
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(directory / "home"),
            "RINGFENCE_STATE_DIR": str(directory / "state"),
        }
        (directory / "home").mkdir()
        self._config = directory / "server.toml"
        self._config.write_text(config)

    def __enter__(self) -> Server:
        self._log = (self.directory / "log").open("w")
        self._process = subprocess.Popen(
            [
                *["setpriv", "--pdeathsig", "KILL", BINARY, "serve", "--listen", "127.0.0.1:0", "--json"],
                *["--config", str(self._config), *self._flags],
            ],
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=self._environment,
            cwd=self.directory,
        )
        # For whoever tidies up after a test that was killed.
        (self.directory / "server.pid").write_text(str(self._process.pid))
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the server did not start: {(self.directory / 'log').read_text()}"
        self.url = str(json.loads(line)["addresses"][0])
        self.port = int(self.url.rsplit(":", 1)[1])
        self.admin = self.key("root", "admin")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()

    def key(self, user: str, role: str = "operator") -> str:
        command = [BINARY, "key", "create", "--user", user, "--role", role]
        made = subprocess.run(command, env=self._environment, cwd=self.directory, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        return made.stdout.split()[0]


class Relay:
    """Carries bytes to and from the server, and closes a connection where `cut` says so.

    `cut(connection, answered)` is asked before bytes of an answer are passed on: the number of the connection, and all
    that the server has answered on it so far. What it gives is how much of that the client may have; None for all.
    """

    def __init__(self, port: int, cut: Callable[[int, bytes], int | None]) -> None:
        self._port = port
        self._cut = cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self._open: list[socket.socket] = []

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        _close(self._listener, *self._open)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            upstream = socket.create_connection(("127.0.0.1", self._port))
            self._open += [client, upstream]
            self.connections += 1
            threading.Thread(target=self._ask, args=(client, upstream), daemon=True).start()
            threading.Thread(target=self._answer, args=(self.connections, client, upstream), daemon=True).start()

    def _ask(self, client: socket.socket, upstream: socket.socket) -> None:
        try:
            while chunk := client.recv(65536):
                upstream.sendall(chunk)
        except OSError:
            pass
        _close(upstream)

    def _answer(self, number: int, client: socket.socket, upstream: socket.socket) -> None:
        answered, told = b"", 0
        try:
            while chunk := upstream.recv(65536):
                answered += chunk
                most = self._cut(number, answered)
                end = len(answered) if most is None else most
                client.sendall(answered[told:end])
                told = max(told, end)
                if most is not None:
                    break
        except OSError:
            pass
        _close(client, upstream)


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        one.close()
