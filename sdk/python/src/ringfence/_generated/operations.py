"""Generated from docs/openapi.json by sdk/generate: do not edit."""

from __future__ import annotations

from typing import Any, Literal

from ringfence._generated.models import (
    ActionAnswer,
    ActionPage,
    AuditPage,
    CommitAnswer,
    CommitRequest,
    CreateRequest,
    DecideRequest,
    DiffAnswer,
    DirectoryRequest,
    EntryPage,
    ExecAnswer,
    ExecRequest,
    ExtendRequest,
    ForkAnswer,
    ForkRequest,
    HeldAnswer,
    KeyPage,
    KeyRequest,
    LoginRequest,
    LogsAnswer,
    MeAnswer,
    NewKeyAnswer,
    PortAnswer,
    PortRequest,
    PortsAnswer,
    ProcessAnswer,
    RememberedPage,
    RenameRequest,
    RollbackAnswer,
    RollbackRequest,
    RunAnswer,
    RunRequest,
    SandboxAnswer,
    SandboxPage,
    SandboxWhole,
    SearchAnswer,
    SecretPage,
    SecretRequest,
    SignalRequest,
    SkillPage,
    SkillRunRequest,
    SnapshotAnswer,
    SnapshotPage,
    SnapshotRequest,
    StatAnswer,
    StatusAnswer,
    StdinRequest,
    SubmitRequest,
    TicketAnswer,
    UploadAnswer,
    UploadedAnswer,
    UserAnswer,
    UserChange,
    UserPage,
    UserRequest,
    VerdictAnswer,
    VersionsAnswer,
    WorkspaceAnswer,
    WorkspacePage,
    WorkspaceUsage,
)
from ringfence._operation import Operation, as_json, path_of


def status_healthz() -> Operation[str]:
    """The server runs."""
    return Operation(
        "GET",
        "/healthz",
        answer="text",
    )


def status_readyz() -> Operation[str]:
    """The server can serve: its database answers."""
    return Operation(
        "GET",
        "/readyz",
        answer="text",
    )


def actions_list(*, state: str | None = None, user: str | None = None, after: str | None = None, limit: int | None = None) -> Operation[ActionPage]:
    """Your actions, the newest first; everybody's, for approvers and admins."""
    return Operation(
        "GET",
        "/v1/actions",
        query={"state": state, "user": user, "after": after, "limit": limit},
        decode=lambda data: ActionPage.from_json(data),
        answer="json",
    )


def actions_submit(body: SubmitRequest) -> Operation[ActionAnswer]:
    """Submit something for approval without doing it. Once it is approved, send the same to its own route with
    `action`.
    """
    return Operation(
        "POST",
        "/v1/actions",
        json=body,
        decode=lambda data: ActionAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def actions_events(*, after: int | None = None) -> Operation[bytes]:
    """What happens to actions, as it happens: yours, or everybody's for approvers and admins.

    Server-Sent Events named `action`, with a number as their id:
    `{"action","user","state","by","at","kind","level","summary"}`.
    `Last-Event-ID` goes on after that one, also after a restart of the server.
    """
    return Operation(
        "GET",
        "/v1/actions/events",
        query={"after": after},
        answer="events",
    )


def actions_remembered(*, after: str | None = None, limit: int | None = None) -> Operation[RememberedPage]:
    """Approvals that are remembered, the oldest first: for your actions, or for everybody's if you may decide.
    """
    return Operation(
        "GET",
        "/v1/actions/remembered",
        query={"after": after, "limit": limit},
        decode=lambda data: RememberedPage.from_json(data),
        answer="json",
    )


def actions_forget(id: str) -> Operation[None]:
    """Withdraw an approval that is remembered. What has begun goes on."""
    return Operation(
        "DELETE",
        path_of("/v1/actions/remembered/{id}", id=id),
        answer="none",
    )


def actions_get(id: str) -> Operation[ActionAnswer]:
    """One action: what would be done, why it is of its level, who decided."""
    return Operation(
        "GET",
        path_of("/v1/actions/{id}", id=id),
        decode=lambda data: ActionAnswer.from_json(data),
        answer="json",
    )


def actions_approve(id: str, body: DecideRequest) -> Operation[ActionAnswer]:
    """Approve what waits. Nobody approves their own high or critical action."""
    return Operation(
        "POST",
        path_of("/v1/actions/{id}/approve", id=id),
        json=body,
        decode=lambda data: ActionAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def actions_cancel(id: str) -> Operation[ActionAnswer]:
    """Take back an action of yours that waits, or that was approved and has not begun. Admins: anybody's."""
    return Operation(
        "POST",
        path_of("/v1/actions/{id}/cancel", id=id),
        decode=lambda data: ActionAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def actions_deny(id: str, body: DecideRequest) -> Operation[ActionAnswer]:
    """Deny what waits."""
    return Operation(
        "POST",
        path_of("/v1/actions/{id}/deny", id=id),
        json=body,
        decode=lambda data: ActionAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def audit_query(*, user: str | None = None, kind: str | None = None, since: int | None = None, until: int | None = None, after: int | None = None, limit: int | None = None) -> Operation[AuditPage]:
    """What happened, the oldest first. Your own rows; all, for admins."""
    return Operation(
        "GET",
        "/v1/audit",
        query={"user": user, "kind": kind, "since": since, "until": until, "after": after, "limit": limit},
        decode=lambda data: AuditPage.from_json(data),
        answer="json",
    )


def audit_export(*, from_: int | None = None) -> Operation[str]:
    """The whole chain as lines of JSON. For admins."""
    return Operation(
        "GET",
        "/v1/audit/export",
        query={"from": from_},
        answer="text",
    )


def audit_verify() -> Operation[VerdictAnswer]:
    """Whether the chain is whole: no edit, deletion, insertion, reordering or cut tail. For admins."""
    return Operation(
        "GET",
        "/v1/audit/verify",
        decode=lambda data: VerdictAnswer.from_json(data),
        answer="json",
    )


def people_keys(*, after: str | None = None, limit: int | None = None) -> Operation[KeyPage]:
    """Your keys, the oldest first; all, for admins. No secret is among them."""
    return Operation(
        "GET",
        "/v1/keys",
        query={"after": after, "limit": limit},
        decode=lambda data: KeyPage.from_json(data),
        answer="json",
    )


def people_add_key(body: KeyRequest) -> Operation[NewKeyAnswer]:
    """Make a key, of no more than your own role and for no longer than the key that you use."""
    return Operation(
        "POST",
        "/v1/keys",
        json=body,
        decode=lambda data: NewKeyAnswer.from_json(data),
        answer="json",
    )


def people_revoke_key(id: str) -> Operation[None]:
    """Revoke a key, for good: one of your own whose role is no more than that of the key that you use; any, for
    admins.
    """
    return Operation(
        "DELETE",
        path_of("/v1/keys/{id}", id=id),
        answer="none",
    )


def people_login(body: LoginRequest) -> Operation[NewKeyAnswer]:
    """Exchange the one-time token of the first start for an admin's key."""
    return Operation(
        "POST",
        "/v1/login",
        json=body,
        decode=lambda data: NewKeyAnswer.from_json(data),
        answer="json",
    )


def people_me() -> Operation[MeAnswer]:
    """Who you are."""
    return Operation(
        "GET",
        "/v1/me",
        decode=lambda data: MeAnswer.from_json(data),
        answer="json",
    )


def status_metrics() -> Operation[str]:
    """Counts for Prometheus. For admins and viewers of everything."""
    return Operation(
        "GET",
        "/v1/metrics",
        answer="text",
    )


def run(body: RunRequest) -> Operation[RunAnswer]:
    """Run one command to its end."""
    return Operation(
        "POST",
        "/v1/run",
        json=body,
        decode=lambda data: RunAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def run_stream(body: RunRequest) -> Operation[bytes]:
    """Run one command and hear of it as it goes.

    Server-Sent Events: `start` `{"id"}`, `stdout` and `stderr` `{"text"}` (or `{"base64"}`), `denial`, then `exit`
    with
    what `POST /v1/run` answers, or `error`. A client that goes away ends the command, unless `keep` is true: then
    another request with `Last-Event-ID` goes on after that event.
    """
    return Operation(
        "POST",
        "/v1/run/stream",
        json=body,
        answer="events",
    )


def sandboxes_list(*, state: str | None = None, after: str | None = None, limit: int | None = None, all: bool | None = None) -> Operation[SandboxPage]:
    """Your sandboxes, the newest first."""
    return Operation(
        "GET",
        "/v1/sandboxes",
        query={"state": state, "after": after, "limit": limit, "all": all},
        decode=lambda data: SandboxPage.from_json(data),
        answer="json",
    )


def sandboxes_create(body: CreateRequest) -> Operation[SandboxAnswer]:
    """Make a sandbox."""
    return Operation(
        "POST",
        "/v1/sandboxes",
        json=body,
        decode=lambda data: SandboxAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def sandboxes_get(id: str) -> Operation[SandboxWhole]:
    """One sandbox."""
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}", id=id),
        decode=lambda data: SandboxWhole.from_json(data),
        answer="json",
    )


def sandboxes_delete(id: str, *, action: str | None = None, wait_ms: int | None = None) -> Operation[None]:
    """End a sandbox, and take away all but its workspace."""
    return Operation(
        "DELETE",
        path_of("/v1/sandboxes/{id}", id=id),
        query={"action": action, "wait_ms": wait_ms},
        answer="none",
    )


def snapshots_commit(id: str, body: CommitRequest) -> Operation[CommitAnswer]:
    """Apply what a sandbox wrote to a copy-on-write workspace to the workspace beneath: all that is chosen, or
    nothing.
    """
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/commit", id=id),
        json=body,
        decode=lambda data: CommitAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def snapshots_diff(id: str, *, since: str | None = None, format: str | None = None) -> Operation[DiffAnswer]:
    """What a sandbox changed: as a list, or as text that `patch` and git read."""
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}/diff", id=id),
        query={"since": since, "format": format},
        decode=lambda data: DiffAnswer.from_json(data),
        answer="json",
    )


def sandboxes_exec(id: str, body: ExecRequest) -> Operation[ExecAnswer]:
    """Run a command in a sandbox to its end."""
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/exec", id=id),
        json=body,
        decode=lambda data: ExecAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def sandboxes_exec_stream(id: str, body: ExecRequest) -> Operation[bytes]:
    """Run a command in a sandbox and hear of it as it goes: events as of `POST /v1/run/stream`."""
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/exec/stream", id=id),
        json=body,
        answer="events",
    )


def sandboxes_extend(id: str, body: ExtendRequest) -> Operation[None]:
    """Let a sandbox live longer."""
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/extend", id=id),
        json=body,
        answer="none",
        keyed=True,
    )


def files_read(id: str, *, path: str) -> Operation[bytes]:
    """Read a file whole."""
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}/files", id=id),
        query={"path": path},
        answer="bytes",
    )


def files_write(id: str, body: bytes, *, path: str, mode: str | None = None, action: str | None = None, wait_ms: int | None = None) -> Operation[None]:
    """Write a file whole: a reader sees the old or the new one."""
    return Operation(
        "PUT",
        path_of("/v1/sandboxes/{id}/files", id=id),
        query={"path": path, "mode": mode, "action": action, "wait_ms": wait_ms},
        content=body, media="application/octet-stream",
        answer="none",
    )


def files_remove(id: str, *, path: str, recursive: bool | None = None, action: str | None = None, wait_ms: int | None = None) -> Operation[None]:
    """Remove a file or directory."""
    return Operation(
        "DELETE",
        path_of("/v1/sandboxes/{id}/files", id=id),
        query={"path": path, "recursive": recursive, "action": action, "wait_ms": wait_ms},
        answer="none",
    )


def files_make_directory(id: str, body: DirectoryRequest) -> Operation[None]:
    """Make a directory."""
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/files/directories", id=id),
        json=body,
        answer="none",
        keyed=True,
    )


def files_list(id: str, *, path: str, after: str | None = None, limit: int | None = None) -> Operation[EntryPage]:
    """What is in a directory, by name."""
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}/files/list", id=id),
        query={"path": path, "after": after, "limit": limit},
        decode=lambda data: EntryPage.from_json(data),
        answer="json",
    )


def files_rename(id: str, body: RenameRequest) -> Operation[None]:
    """Move a file or directory."""
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/files/move", id=id),
        json=body,
        answer="none",
        keyed=True,
    )


def files_stat(id: str, *, path: str) -> Operation[StatAnswer]:
    """What a path is; a link itself, not where it leads."""
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}/files/stat", id=id),
        query={"path": path},
        decode=lambda data: StatAnswer.from_json(data),
        answer="json",
    )


def files_download(id: str, *, path: str) -> Operation[bytes]:
    """A directory, or a file, as a tar. Links are in it as links; a stream that breaks off was not whole."""
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}/files/tree", id=id),
        query={"path": path},
        answer="bytes",
    )


def files_upload(id: str, body: bytes, *, path: str) -> Operation[UploadAnswer]:
    """Write the files and directories of a tar below a directory, which is made where it isn't there. Links, devices,
    `..` and
    absolute paths are refused, and so is a tree with a file that a rule would have a person look at: nothing is
    written then.
    """
    return Operation(
        "PUT",
        path_of("/v1/sandboxes/{id}/files/tree", id=id),
        query={"path": path},
        content=body, media="application/x-tar",
        decode=lambda data: UploadAnswer.from_json(data),
        answer="json",
    )


def files_watch(id: str, *, path: str, recursive: bool | None = None) -> Operation[bytes]:
    """Hear of changes below a path: Server-Sent Events `start`, then `change` `{"change","path"}`, until the sandbox
    ends.
    `overflow` as the change means that some were too many to be told: look again.
    """
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}/files/watch", id=id),
        query={"path": path, "recursive": recursive},
        answer="events",
    )


def snapshots_fork(id: str, body: ForkRequest) -> Operation[ForkAnswer]:
    """Make sandboxes that begin where this one is, each with its own copy-on-write workspace and the same policy, if
    the
    caller may still have it. A snapshot of it is taken for that, and stays.
    """
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/fork", id=id),
        json=body,
        decode=lambda data: ForkAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def sandboxes_pause(id: str) -> Operation[None]:
    """Stop every process of a sandbox until it is resumed."""
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/pause", id=id),
        answer="none",
        keyed=True,
    )


def ports_list(id: str) -> Operation[PortsAnswer]:
    """The ports of a sandbox that are shown."""
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}/ports", id=id),
        decode=lambda data: PortsAnswer.from_json(data),
        answer="json",
    )


def ports_show(id: str, body: PortRequest) -> Operation[PortAnswer]:
    """Show a port of the sandbox's own loopback: requests to `/v1/sandboxes/{id}/ports/{port}/http/…`, with a key of
    its owner,
    go to what listens there.
    """
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/ports", id=id),
        json=body,
        decode=lambda data: PortAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def ports_hide(id: str, port: int) -> Operation[None]:
    """Show a port no longer."""
    return Operation(
        "DELETE",
        path_of("/v1/sandboxes/{id}/ports/{port}", id=id, port=port),
        answer="none",
    )


def ports_ticket(id: str, port: int) -> Operation[TicketAnswer]:
    """A ticket for one WebSocket to a shown port of this sandbox: what a browser uses, as `?ticket=`, since it can't
    send a key with
    one. Good once, for half a minute.
    """
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/ports/{port}/ticket", id=id, port=port),
        decode=lambda data: TicketAnswer.from_json(data),
        answer="json",
    )


def processes_list(id: str) -> Operation[list[dict[str, Any]]]:
    """The commands of a sandbox, running and ended."""
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}/processes", id=id),
        decode=as_json,
        answer="json",
    )


def processes_start(id: str, body: ExecRequest) -> Operation[ProcessAnswer]:
    """Start a command and leave it running; its output is kept."""
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/processes", id=id),
        json=body,
        decode=lambda data: ProcessAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def processes_logs(id: str, process: int, *, from_: int | None = None, limit: int | None = None) -> Operation[LogsAnswer]:
    """What a kept command has written, from an offset on."""
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}/processes/{process}/logs", id=id, process=process),
        query={"from": from_, "limit": limit},
        decode=lambda data: LogsAnswer.from_json(data),
        answer="json",
    )


def processes_signal(id: str, process: int, body: SignalRequest) -> Operation[None]:
    """Signal a command."""
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/processes/{process}/signal", id=id, process=process),
        json=body,
        answer="none",
        keyed=True,
    )


def processes_stdin(id: str, process: int, body: StdinRequest) -> Operation[None]:
    """Write to a kept command. Refused where a rule would have a person look at it first, or at that command.
    """
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/processes/{process}/stdin", id=id, process=process),
        json=body,
        answer="none",
        keyed=True,
    )


def sandboxes_resume(id: str) -> Operation[None]:
    """Let a paused sandbox go on."""
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/resume", id=id),
        answer="none",
        keyed=True,
    )


def snapshots_rollback(id: str, body: RollbackRequest) -> Operation[RollbackAnswer]:
    """Bring a sandbox's files back to a snapshot. Its processes wait meanwhile, and go on."""
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/rollback", id=id),
        json=body,
        decode=lambda data: RollbackAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def snapshots_take(id: str, body: SnapshotRequest) -> Operation[SnapshotAnswer]:
    """Take a snapshot of a sandbox's workspace, and of its home where that is its own. Its processes wait meanwhile.
    """
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/snapshots", id=id),
        json=body,
        decode=lambda data: SnapshotAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def sandboxes_stats(id: str) -> Operation[dict[str, Any]]:
    """What a sandbox uses: processors, memory, processes, disk, network."""
    return Operation(
        "GET",
        path_of("/v1/sandboxes/{id}/stats", id=id),
        decode=as_json,
        answer="json",
    )


def sandboxes_ticket(id: str) -> Operation[TicketAnswer]:
    """A ticket for one terminal of this sandbox: what a browser uses, which can't send a key with a WebSocket. Good
    once, for
    half a minute.
    """
    return Operation(
        "POST",
        path_of("/v1/sandboxes/{id}/terminal/ticket", id=id),
        decode=lambda data: TicketAnswer.from_json(data),
        answer="json",
    )


def secrets_list(*, after: str | None = None, limit: int | None = None) -> Operation[SecretPage]:
    """The names of your secrets."""
    return Operation(
        "GET",
        "/v1/secrets",
        query={"after": after, "limit": limit},
        decode=lambda data: SecretPage.from_json(data),
        answer="json",
    )


def secrets_set(name: str, body: SecretRequest) -> Operation[None]:
    """Keep a secret, in place of an older one of that name. A sandbox that has it already goes on with the old one.
    """
    return Operation(
        "PUT",
        path_of("/v1/secrets/{name}", name=name),
        json=body,
        answer="none",
    )


def secrets_delete(name: str, *, action: str | None = None, wait_ms: int | None = None) -> Operation[None]:
    """Remove a secret. A sandbox that has it already goes on with it."""
    return Operation(
        "DELETE",
        path_of("/v1/secrets/{name}", name=name),
        query={"action": action, "wait_ms": wait_ms},
        answer="none",
    )


def skills_list(*, domain: str | None = None, after: str | None = None, limit: int | None = None) -> Operation[SkillPage]:
    """The skills that you may see, by domain and name."""
    return Operation(
        "GET",
        "/v1/skills",
        query={"domain": domain, "after": after, "limit": limit},
        decode=lambda data: SkillPage.from_json(data),
        answer="json",
    )


def skills_upload(body: bytes, *, domain: str, name: str | None = None, replace: bool | None = None, accept_findings: bool | None = None, action: str | None = None, wait_ms: int | None = None) -> Operation[UploadedAnswer]:
    """Add a skill from an archive (`.skill`, zip or tar, compressed or not), to a domain that your role may publish
    to.
    """
    return Operation(
        "POST",
        "/v1/skills",
        query={"domain": domain, "name": name, "replace": replace, "accept_findings": accept_findings, "action": action, "wait_ms": wait_ms},
        content=body, media="application/octet-stream",
        decode=lambda data: UploadedAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def skills_lint_archive(body: bytes) -> Operation[dict[str, Any]]:
    """What is suspicious in an archive. Nothing is kept."""
    return Operation(
        "POST",
        "/v1/skills/lint",
        content=body, media="application/octet-stream",
        decode=as_json,
        answer="json",
        keyed=True,
    )


def skills_search(*, q: str, limit: int | None = None) -> Operation[SearchAnswer]:
    """Find skills by words of their names, descriptions and manifests."""
    return Operation(
        "GET",
        "/v1/skills/search",
        query={"q": q, "limit": limit},
        decode=lambda data: SearchAnswer.from_json(data),
        answer="json",
    )


def skills_validate_archive(body: bytes, *, strict: bool | None = None) -> Operation[dict[str, Any]]:
    """Whether an archive's manifest is valid. Nothing is kept."""
    return Operation(
        "POST",
        "/v1/skills/validate",
        query={"strict": strict},
        content=body, media="application/octet-stream",
        decode=as_json,
        answer="json",
        keyed=True,
    )


def skills_get(domain: str, name: str) -> Operation[dict[str, Any]]:
    """One skill: what its manifest says, what it asks for, which files it has."""
    return Operation(
        "GET",
        path_of("/v1/skills/{domain}/{name}", domain=domain, name=name),
        decode=as_json,
        answer="json",
    )


def skills_delete(domain: str, name: str, *, action: str | None = None, wait_ms: int | None = None) -> Operation[None]:
    """Take a skill out of the library, of a domain that your role may overwrite. Its versions are kept."""
    return Operation(
        "DELETE",
        path_of("/v1/skills/{domain}/{name}", domain=domain, name=name),
        query={"action": action, "wait_ms": wait_ms},
        answer="none",
    )


def skills_archive(domain: str, name: str) -> Operation[bytes]:
    """A skill as an archive: the same skill, the same bytes."""
    return Operation(
        "GET",
        path_of("/v1/skills/{domain}/{name}/archive", domain=domain, name=name),
        answer="bytes",
    )


def skills_file(domain: str, name: str, *, path: str | None = None) -> Operation[bytes]:
    """One file of a skill."""
    return Operation(
        "GET",
        path_of("/v1/skills/{domain}/{name}/file", domain=domain, name=name),
        query={"path": path},
        answer="bytes",
    )


def skills_lint(domain: str, name: str) -> Operation[dict[str, Any]]:
    """What is suspicious in a skill. Advice: the sandbox is the control."""
    return Operation(
        "GET",
        path_of("/v1/skills/{domain}/{name}/lint", domain=domain, name=name),
        decode=as_json,
        answer="json",
    )


def skills_run(domain: str, name: str, body: SkillRunRequest) -> Operation[RunAnswer]:
    """Run a script of a skill in a fresh sandbox, within your role's ceiling."""
    return Operation(
        "POST",
        path_of("/v1/skills/{domain}/{name}/run", domain=domain, name=name),
        json=body,
        decode=lambda data: RunAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def skills_validate(domain: str, name: str, *, strict: bool | None = None) -> Operation[dict[str, Any]]:
    """Whether a skill's manifest is valid."""
    return Operation(
        "GET",
        path_of("/v1/skills/{domain}/{name}/validate", domain=domain, name=name),
        query={"strict": strict},
        decode=as_json,
        answer="json",
    )


def skills_versions(domain: str, name: str) -> Operation[VersionsAnswer]:
    """What became of a skill."""
    return Operation(
        "GET",
        path_of("/v1/skills/{domain}/{name}/versions", domain=domain, name=name),
        decode=lambda data: VersionsAnswer.from_json(data),
        answer="json",
    )


def snapshots_list(*, sandbox: str | None = None, user: str | None = None, after: str | None = None, limit: int | None = None) -> Operation[SnapshotPage]:
    """Your snapshots, the newest first."""
    return Operation(
        "GET",
        "/v1/snapshots",
        query={"sandbox": sandbox, "user": user, "after": after, "limit": limit},
        decode=lambda data: SnapshotPage.from_json(data),
        answer="json",
    )


def snapshots_import(body: bytes) -> Operation[SnapshotAnswer]:
    """Take in a snapshot that was exported, as one of your own. One with a file that a rule would have a person look
    at is refused.
    """
    return Operation(
        "POST",
        "/v1/snapshots/import",
        content=body, media="application/x-tar",
        decode=lambda data: SnapshotAnswer.from_json(data),
        answer="json",
    )


def snapshots_get(id: str, *, user: str | None = None) -> Operation[SnapshotAnswer]:
    """One snapshot, by id or name."""
    return Operation(
        "GET",
        path_of("/v1/snapshots/{id}", id=id),
        query={"user": user},
        decode=lambda data: SnapshotAnswer.from_json(data),
        answer="json",
    )


def snapshots_delete(id: str, *, user: str | None = None, action: str | None = None, wait_ms: int | None = None) -> Operation[None]:
    """Remove a snapshot. Sandboxes that were made of it stay."""
    return Operation(
        "DELETE",
        path_of("/v1/snapshots/{id}", id=id),
        query={"user": user, "action": action, "wait_ms": wait_ms},
        answer="none",
    )


def snapshots_export(id: str, *, user: str | None = None) -> Operation[bytes]:
    """A snapshot whole, as a tar that `POST /v1/snapshots/import` and `ringfence snapshot import` take."""
    return Operation(
        "GET",
        path_of("/v1/snapshots/{id}/export", id=id),
        query={"user": user},
        answer="bytes",
    )


def snapshots_fork_snapshot(id: str, body: ForkRequest) -> Operation[ForkAnswer]:
    """Make sandboxes that begin where a snapshot is. Their policy is that of the sandbox it was taken of, where that
    is still
    known and the caller may have it.
    """
    return Operation(
        "POST",
        path_of("/v1/snapshots/{id}/fork", id=id),
        json=body,
        decode=lambda data: ForkAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def status() -> Operation[StatusAnswer]:
    """How the server is."""
    return Operation(
        "GET",
        "/v1/status",
        decode=lambda data: StatusAnswer.from_json(data),
        answer="json",
    )


def workspaces_usage() -> Operation[HeldAnswer]:
    """What you hold on the server's disk, and may."""
    return Operation(
        "GET",
        "/v1/usage",
        decode=lambda data: HeldAnswer.from_json(data),
        answer="json",
    )


def people_users(*, after: str | None = None, limit: int | None = None) -> Operation[UserPage]:
    """All users, by name. For admins."""
    return Operation(
        "GET",
        "/v1/users",
        query={"after": after, "limit": limit},
        decode=lambda data: UserPage.from_json(data),
        answer="json",
    )


def people_add_user(body: UserRequest) -> Operation[UserAnswer]:
    """Make a user. For admins."""
    return Operation(
        "POST",
        "/v1/users",
        json=body,
        decode=lambda data: UserAnswer.from_json(data),
        answer="json",
        keyed=True,
    )


def people_remove_user(name: str) -> Operation[None]:
    """Remove a user with their keys and secrets. Their workspaces and snapshots stay. For admins."""
    return Operation(
        "DELETE",
        path_of("/v1/users/{name}", name=name),
        answer="none",
    )


def people_change_user(name: str, body: UserChange) -> Operation[UserAnswer]:
    """Change a user's role, or let them in or not. For admins."""
    return Operation(
        "PATCH",
        path_of("/v1/users/{name}", name=name),
        json=body,
        decode=lambda data: UserAnswer.from_json(data),
        answer="json",
    )


def workspaces_list(*, after: str | None = None, limit: int | None = None, user: str | None = None) -> Operation[WorkspacePage]:
    """Your workspaces, by name."""
    return Operation(
        "GET",
        "/v1/workspaces",
        query={"after": after, "limit": limit, "user": user},
        decode=lambda data: WorkspacePage.from_json(data),
        answer="json",
    )


def workspaces_get(name: str, *, user: str | None = None) -> Operation[WorkspaceAnswer]:
    """One of your workspaces, with what it holds."""
    return Operation(
        "GET",
        path_of("/v1/workspaces/{name}", name=name),
        query={"user": user},
        decode=lambda data: WorkspaceAnswer.from_json(data),
        answer="json",
    )


def workspaces_delete(name: str, *, user: str | None = None, action: str | None = None, wait_ms: int | None = None) -> Operation[None]:
    """Remove a workspace with all its files. Refused while a sandbox lives in it."""
    return Operation(
        "DELETE",
        path_of("/v1/workspaces/{name}", name=name),
        query={"user": user, "action": action, "wait_ms": wait_ms},
        answer="none",
    )


def workspaces_usage_of(name: str, *, user: str | None = None) -> Operation[WorkspaceUsage]:
    """What one of your workspaces holds."""
    return Operation(
        "GET",
        path_of("/v1/workspaces/{name}/usage", name=name),
        query={"user": user},
        decode=lambda data: WorkspaceUsage.from_json(data),
        answer="json",
    )
