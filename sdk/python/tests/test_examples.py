"""The examples, with the packages as a user would install them, and curl."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from scripted import ScriptedModel
from serving import Server

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples/sdk"


def ran(*words: str | Path, cwd: Path, **more: str) -> str:
    environment = {**os.environ, **more}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the wheel holds, without its dependencies: those are here already."""
    target = tmp_path_factory.mktemp("installed")
    source = target / "source"
    shutil.copytree(ROOT / "sdk/python", source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    ran(*pip, "--disable-pip-version-check", "--target", target / "site", source, cwd=target)
    assert (target / "site/ringfence/py.typed").exists()
    return target / "site"


def test_in_python(environment: None, installed: Path, tmp_path: Path) -> None:
    told = ran(sys.executable, EXAMPLES / "stream.py", cwd=tmp_path, PYTHONPATH=str(installed))
    assert told.startswith("run 1\nrun 2\nrun 3\nsorted: ['1', '2', '3']\ndenied: ")


def test_in_javascript(environment: None, tmp_path: Path) -> None:
    package = ran("npm", "pack", "--silent", "--ignore-scripts", ROOT / "sdk/typescript", cwd=tmp_path).split()[-1]
    with tarfile.open(tmp_path / package) as archive:
        archive.extractall(tmp_path / "node_modules", filter="data")
    (tmp_path / "node_modules/package").rename(tmp_path / "node_modules/ringfence")
    shutil.copy(EXAMPLES / "stream.mjs", tmp_path)
    assert not list((tmp_path / "node_modules/ringfence").glob("**/*.test.*")), "tests are not published"
    told = ran("node", "stream.mjs", cwd=tmp_path)
    assert told.startswith("run 1\nrun 2\nrun 3\nsorted: [ '1', '2', '3' ]\ndenied: ")


def test_an_agent(environment: None, installed: Path, tmp_path: Path) -> None:
    with ScriptedModel(("run_shell_command", {"args": ["sh", "-c", "echo $((6*7))"]})) as model:
        more = {"PYTHONPATH": str(installed), "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none"}
        assert ran(sys.executable, EXAMPLES / "agent.py", "go", cwd=tmp_path, **more) == "done\n"
        assert model.answers == ["42\n"]


def test_a_streamed_run_from_curl(server: Server, key: str, tmp_path: Path) -> None:
    headers = ["-H", f"Authorization: Bearer {key}", "-H", "Content-Type: application/json"]
    body = '{"command":["sh","-c","echo one; exit 3"]}'
    told = ran("curl", "-sN", *headers, "-d", body, f"{server.url}/v1/run/stream", cwd=tmp_path)
    assert 'event: stdout\n' in told and '{"text":"one\\n"}' in told and '"exit_code":3' in told
