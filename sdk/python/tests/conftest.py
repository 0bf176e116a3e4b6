"""A real server for the tests: a process of its own, with a state directory of its own, gone at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ringfence import Ringfence
from serving import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server
        # Whatever a test made, it took away.
        with Ringfence(server.url, server.admin) as ringfence:
            left = [one.id for one in ringfence.sandboxes.list(state="alive", all=True)]
            for sandbox_id in left:
                ringfence.sandboxes.attach(sandbox_id).delete()
        assert left == [], "sandboxes were left behind"


@pytest.fixture
def key(server: Server, request: pytest.FixtureRequest) -> str:
    """A user of its own for each test, so that none sees another's workspace."""
    return server.key(f"u{abs(hash(request.node.nodeid)):x}"[:16])


@pytest.fixture
def ringfence(server: Server, key: str) -> Iterator[Ringfence]:
    with Ringfence(server.url, key) as ringfence:
        yield ringfence


@pytest.fixture
def environment(server: Server, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_URL", server.url)
    monkeypatch.setenv("RINGFENCE_API_KEY", key)


@pytest.fixture
def secret(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the host that everybody may read, outside of every sandbox."""
    path = tmp_path / "secret"
    path.write_text("the-host-secret")
    top = tmp_path_factory.getbasetemp()
    for one in (path, *path.parents):
        if one.is_relative_to(top):
            one.chmod(0o755)
    return path
