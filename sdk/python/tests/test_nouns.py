"""Snapshots, forks, diffs, commits, ports, skills and secrets."""

from __future__ import annotations

import io
import tarfile

import httpx
import pytest

from ringfence import Ringfence, WaitingForApproval
from ringfence._generated import operations
from ringfence._generated.models import RunRequestOptions
from ringfence.errors import Conflict, NotFound
from serving import Server


def test_snapshots(ringfence: Ringfence) -> None:
    with ringfence.sandboxes.create(workspace="private") as sandbox:
        sandbox.files.write("a", "one")
        # More than a body that the server reads whole: it comes back as a stream, without an Idempotency-Key.
        sandbox.run("head -c 17000000 /dev/urandom > large", check=True)
        taken = sandbox.snapshots.take("before")
        assert (taken.name, taken.sandbox) == ("before", sandbox.id)
        sandbox.files.write("a", "two")
        assert [(one.path, one.change) for one in sandbox.diff(since=taken.id)] == [("a", "changed")]
        assert "-one" in sandbox.diff_text(since="before") and "+two" in sandbox.diff_text(since="before")
        assert sandbox.snapshots.rollback("before").written == 1
        assert sandbox.files.read_text("a") == "one"
        assert [one.id for one in sandbox.snapshots.list()] == [taken.id]
        exported = ringfence.snapshots.export(taken.id)
    # They outlive their sandbox.
    assert ringfence.snapshots.get(taken.id).name == "before"
    [fork] = ringfence.snapshots.fork(taken.id)
    with fork:
        assert fork.files.read_text("a") == "one"
    ringfence.snapshots.delete(taken.id)
    with pytest.raises(NotFound):
        ringfence.snapshots.get(taken.id)
    again = ringfence.snapshots.import_(exported)
    assert [one.id for one in ringfence.snapshots.list()] == [again.id]


def test_forks_go_their_own_ways(ringfence: Ringfence) -> None:
    with ringfence.sandboxes.create(workspace="private") as sandbox:
        sandbox.files.write("a", "one")
        first, second = sandbox.fork(count=2, ttl_ms=600_000)
        with first, second:
            first.files.write("a", "two")
            assert [one.files.read_text("a") for one in (sandbox, first, second)] == ["one", "two", "one"]


def test_a_commit_is_whole_or_tells_its_conflicts(ringfence: Ringfence) -> None:
    ringfence.run("echo old > a; echo old > b", workspace="w", check=True)
    with (
        ringfence.sandboxes.create(workspace="w") as direct,
        ringfence.sandboxes.create(workspace="w", overlay=True) as overlay,
    ):
        overlay.run("echo new > a; echo new > b", check=True)
        direct.files.write("b", "theirs\n")
        assert {(one.path, one.conflict) for one in overlay.diff()} >= {("a", False), ("b", True)}
        with pytest.raises(Conflict) as conflict:
            overlay.commit()
        assert conflict.value.detail["paths"] == ["b"]
        assert direct.files.read_text("a") == "old\n"
        assert len(overlay.commit(only=["a"]).applied) == 1
        assert (direct.files.read_text("a"), direct.files.read_text("b")) == ("new\n", "theirs\n")


def test_what_listens_inside_is_reached(ringfence: Ringfence, key: str) -> None:
    with ringfence.sandboxes.create() as sandbox:
        sandbox.files.write("page", "from inside")
        process = sandbox.processes.start(["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "8000"])
        while "Serving" not in (process.logs().stdout or ""):
            assert (process.info() or {}).get("result") is None, "it listens, or has not ended"
        address = sandbox.ports.show(8000)
        assert sandbox.ports.list() == [8000] and address == sandbox.ports.url(8000)
        # A ticket is told once, so that the server refuses an Idempotency-Key for it.
        assert sandbox.send(operations.ports_ticket(sandbox.id, 8000)).ticket
        owner = {"Authorization": f"Bearer {key}"}
        assert httpx.get(sandbox.ports.url(8000, "page"), headers=owner, trust_env=False).text == "from inside"
        assert httpx.get(sandbox.ports.url(8000, "page"), trust_env=False).status_code == 401
        sandbox.ports.hide(8000)
        assert sandbox.ports.list() == []
        assert httpx.get(sandbox.ports.url(8000, "page"), headers=owner, trust_env=False).status_code == 404


def skill(name: str, script: str) -> bytes:
    """An archive as an author would make it."""
    text = f"---\nname: {name}\ndescription: Counts the words of a text.\n---\n# {name}\nRun scripts/count.sh\n"
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for path, content in ((f"{name}/SKILL.md", text), (f"{name}/scripts/count.sh", script)):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content.encode()))
    return out.getvalue()


def test_skills(ringfence: Ringfence) -> None:
    archive = skill("word-count", '#!/bin/sh\necho "$@" | wc -w\n')
    assert ringfence.skills.validate_archive(archive)
    assert ringfence.skills.lint_archive(archive)
    first = ringfence.skills.upload("team", archive)
    assert (first.skill, first.previous) == ("team/word-count", None)
    try:
        assert [(one.domain, one.name) for one in ringfence.skills.list(domain="team")] == [("team", "word-count")]
        assert ringfence.skills.search("words of a text").hits
        assert ringfence.skills.get("team", "word-count")["name"] == "word-count"
        assert ringfence.skills.file("team", "word-count").startswith(b"---\nname: word-count")
        assert b"wc -w" in ringfence.skills.file("team", "word-count", "scripts/count.sh")
        assert ringfence.skills.validate("team", "word-count") and ringfence.skills.lint("team", "word-count")
        assert ringfence.skills.run("team", "word-count", args=["a", "b", "c"], check=True).stdout.strip() == "3"
        with pytest.raises(Conflict):
            ringfence.skills.upload("team", skill("word-count", "#!/bin/sh\necho other\n"))
        second = ringfence.skills.upload("team", skill("word-count", "#!/bin/sh\necho other\n"), replace=True)
        assert second.previous == first.digest
        assert len(ringfence.skills.versions("team", "word-count").versions) == 2
        assert ringfence.skills.upload("team", ringfence.skills.archive("team", "word-count"), name="copy").digest
        ringfence.skills.delete("team", "copy")
    finally:
        ringfence.skills.delete("team", "word-count")
    with pytest.raises(NotFound):
        ringfence.skills.get("team", "word-count")


def test_a_secret_is_used_and_never_seen(ringfence: Ringfence, server: Server) -> None:
    ringfence.secrets.set("API_TOKEN", "planted-value")
    ringfence.secrets.set("OTHER", "second-value")
    assert list(ringfence.secrets.list()) == ["API_TOKEN", "OTHER"]
    order: RunRequestOptions = {
        "network": {"enabled": True, "allowed_domains": ["api.example.com"]},
        "secrets": [{"name": "API_TOKEN", "hosts": ["api.example.com"]}],
    }
    with pytest.raises(WaitingForApproval) as waits:
        ringfence.run("echo $API_TOKEN", **order)
    assert waits.value.action.level == "high"
    with Ringfence(server.url, server.key("decides", "approver")) as approver:
        approver.actions.approve(waits.value.action.id)
    order["action"] = waits.value.action.id
    result = ringfence.run("echo $API_TOKEN", check=True, **order)
    assert result.stdout.strip() and "planted-value" not in result.stdout
    ringfence.secrets.delete("OTHER")
    assert list(ringfence.secrets.list()) == ["API_TOKEN"]


def test_usage(ringfence: Ringfence, server: Server) -> None:
    ringfence.run("head -c 100000 /dev/zero > zeros", workspace="w", check=True)
    assert ringfence.workspaces.usage("w").bytes >= 100_000
    usage = ringfence.usage()
    assert 100_000 <= usage["bytes"] <= usage["limit"]
