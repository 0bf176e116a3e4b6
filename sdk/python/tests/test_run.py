"""One-shot runs, sandboxes, processes and files, with the synchronous client."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ringfence import CommandFailed, Ringfence, operations, run_sandboxed
from ringfence.errors import NoSuchFile, NotFound, SandboxEnded
from serving import Server


def test_a_string_is_for_the_shell_and_a_list_is_not(ringfence: Ringfence) -> None:
    assert ringfence.run("echo $((6*7)); echo bad >&2; exit 3").exit_code == 3
    result = ringfence.run(["echo", "$HOME; id"])
    assert (result.ok, result.stdout) == (True, "$HOME; id\n")
    assert ringfence.run("cat", stdin="in", env={"A": "b"}).stdout == "in"
    assert ringfence.run(["printf", r"\377\n"]).stdout_bytes == b"\xff\n"


def test_a_failed_command_is_a_result_unless_checked(ringfence: Ringfence) -> None:
    with pytest.raises(CommandFailed, match="ended with 4: no") as failed:
        ringfence.run("echo no >&2; exit 4", check=True)
    assert failed.value.result.stderr == "no\n"
    late = ringfence.run("sleep 100", timeout_ms=50)
    assert late.timed_out and late.exit_code == 124


def test_what_is_blocked_is_told(ringfence: Ringfence) -> None:
    result = ringfence.run("unshare -U true")
    assert [denial["what"] for denial in result.denials] == ["unshare"]
    assert "[denied: " in result.for_model() and "[exit status 1]" in result.for_model()
    with ringfence.sandboxes.create() as sandbox:
        assert [denial["what"] for denial in sandbox.run("unshare -U true").denials] == ["unshare"]


def test_the_one_line_way(environment: None, secret: Path) -> None:
    assert run_sandboxed("echo hello") == "hello"
    assert secret.read_text() not in run_sandboxed(f"cat {secret}")
    assert "No such file" in run_sandboxed(f"cat {secret}")


def test_a_sandbox_stays_until_its_block_ends(ringfence: Ringfence) -> None:
    with ringfence.sandboxes.create(name="work", labels={"a": "b"}) as sandbox:
        sandbox.run("echo one > /tmp/kept; cd /; pwd", check=True)
        assert sandbox.run("cat /tmp/kept").stdout == "one\n"
        assert [one.id for one in ringfence.sandboxes.list(state="alive")] == [sandbox.id]
        whole = sandbox.get()
        assert (whole.name, whole.state, whole.labels) == ("work", "alive", {"a": "b"})
        sandbox.pause()
        sandbox.resume()
        sandbox.extend(ttl_ms=600_000)
        assert sandbox.stats()
    assert list(ringfence.sandboxes.list(state="alive")) == []
    with pytest.raises((NotFound, SandboxEnded)):
        sandbox.run("true")


def test_a_sandbox_is_taken_away_when_its_block_throws(ringfence: Ringfence) -> None:
    with pytest.raises(ZeroDivisionError), ringfence.sandboxes.create() as sandbox:
        sandbox.processes.start("sleep 1000")
        raise ZeroDivisionError
    assert list(ringfence.sandboxes.list(state="alive")) == []
    # The twin: without the block it stays.
    left = ringfence.sandboxes.create()
    assert [one.id for one in ringfence.sandboxes.list(state="alive")] == [left.id]
    # One that is gone already is no error at the end of a block.
    with left:
        left.delete()


def test_processes(ringfence: Ringfence) -> None:
    with ringfence.sandboxes.create() as sandbox:
        process = sandbox.processes.start("read line; echo got $line; exit 5")
        process.write("a line\n", close=True)
        assert process.wait()["code"] == 5
        logs = process.logs()
        assert logs.stdout == "got a line\n"
        assert process.logs(start=4).stdout == "a line\n"
        endless = sandbox.processes.start(["sleep", "1000"])
        assert {one["process"] for one in sandbox.processes.list()} >= {process.id, endless.id}
        endless.kill()
        assert endless.wait()["signal"] == 9


def test_files(ringfence: Ringfence) -> None:
    with ringfence.sandboxes.create() as sandbox:
        files = sandbox.files
        files.write("a b.txt", "text ✓")
        files.write("/workspace/bin", b"\0\xff", mode=0o755)
        assert (files.read_text("a b.txt"), files.read("bin")) == ("text ✓", b"\0\xff")
        assert files.stat("bin").mode.endswith("755")
        files.make_directory("x/y", parents=True)
        files.move("a b.txt", "x/y/c")
        assert [(one.name, one.kind) for one in files.list("x")] == [("y", "directory")]
        sandbox.run("mkdir many && cd many && touch $(seq 1000 1120)")
        assert [one.name for one in files.list("many")] == [str(number) for number in range(1000, 1121)]
        files.remove("x", recursive=True)
        with pytest.raises(NoSuchFile):
            files.read("x/y/c")


def test_a_directory_goes_up_without_what_its_links_lead_to(ringfence: Ringfence, tmp_path: Path, secret: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub/run.sh").write_text("#!/bin/sh\necho ran\n")
    (tree / "sub/run.sh").chmod(0o755)
    (tree / "plain").write_text("plain")
    (tree / "link").symlink_to(secret)
    (tree / "sub/above").symlink_to(tmp_path)
    os.mkfifo(tree / "pipe")
    assert (tree / "link").read_text() == "the-host-secret", "the link would lead there"
    with ringfence.sandboxes.create() as sandbox:
        sandbox.files.upload(tree, "up")
        assert sandbox.run("find up -type f | sort").stdout == "up/plain\nup/sub/run.sh\n"
        assert sandbox.run("up/sub/run.sh").stdout == "ran\n"
        assert sandbox.run("find up -type l; ls up/link").stdout == ""


def test_every_route_can_be_asked(server: Server, ringfence: Ringfence) -> None:
    assert ringfence.me().role == "operator"
    assert ringfence.status().version
    assert ringfence.send(operations.status_healthz()).strip() == "ok"
    ringfence.run("true", workspace="mine")
    assert "mine" in [one.name for one in ringfence.workspaces.list()]
    ringfence.workspaces.delete("mine")
    with Ringfence(server.url, server.admin) as admin:
        admin.users.create("temporary", "viewer")
        assert admin.users.change("temporary", disabled=True).disabled
        made = admin.keys.create(user="temporary", role="viewer", label="one")
        assert made.key and made.id in [one.id for one in admin.keys.list()]
        admin.keys.revoke(made.id)
        admin.users.delete("temporary")
        assert admin.audit.verify().whole
        assert any(row["kind"] == "run" for row in admin.audit.rows(kind="run"))
        assert '"kind":"run"' in admin.audit.export()
