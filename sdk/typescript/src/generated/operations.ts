// Generated from docs/openapi.json by sdk/generate: do not edit.

import type {
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
  JsonObject,
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
} from "./models.js";
import { type Operation, pathOf } from "../operation.js";

/** The server runs. */
export function statusHealthz(): Operation<string> {
  return {
    method: "GET",
    path: "/healthz",
    answer: "text",
    keyed: false,
  };
}

/** The server can serve: its database answers. */
export function statusReadyz(): Operation<string> {
  return {
    method: "GET",
    path: "/readyz",
    answer: "text",
    keyed: false,
  };
}

/** Your actions, the newest first; everybody's, for approvers and admins. */
export function actionsList(query: { state?: string; user?: string; after?: string; limit?: number } = {}): Operation<ActionPage> {
  return {
    method: "GET",
    path: "/v1/actions",
    query,
    answer: "json",
    keyed: false,
  };
}

/** Submit something for approval without doing it. Once it is approved, send the same to its own route with `action`. */
export function actionsSubmit(body: SubmitRequest): Operation<ActionAnswer> {
  return {
    method: "POST",
    path: "/v1/actions",
    json: body,
    answer: "json",
    keyed: true,
  };
}

/**
 * What happens to actions, as it happens: yours, or everybody's for approvers and admins.
 *
 * Server-Sent Events named `action`, with a number as their id: `{"action","user","state","by","at","kind","level","summary"}`.
 * `Last-Event-ID` goes on after that one, also after a restart of the server.
 */
export function actionsEvents(query: { after?: number } = {}): Operation<never> {
  return {
    method: "GET",
    path: "/v1/actions/events",
    query,
    answer: "events",
    keyed: false,
  };
}

/** Approvals that are remembered, the oldest first: for your actions, or for everybody's if you may decide. */
export function actionsRemembered(query: { after?: string; limit?: number } = {}): Operation<RememberedPage> {
  return {
    method: "GET",
    path: "/v1/actions/remembered",
    query,
    answer: "json",
    keyed: false,
  };
}

/** Withdraw an approval that is remembered. What has begun goes on. */
export function actionsForget(id: string): Operation<void> {
  return {
    method: "DELETE",
    path: pathOf("/v1/actions/remembered/{id}", { id }),
    answer: "none",
    keyed: false,
  };
}

/** One action: what would be done, why it is of its level, who decided. */
export function actionsGet(id: string): Operation<ActionAnswer> {
  return {
    method: "GET",
    path: pathOf("/v1/actions/{id}", { id }),
    answer: "json",
    keyed: false,
  };
}

/** Approve what waits. Nobody approves their own high or critical action. */
export function actionsApprove(id: string, body: DecideRequest): Operation<ActionAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/actions/{id}/approve", { id }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** Take back an action of yours that waits, or that was approved and has not begun. Admins: anybody's. */
export function actionsCancel(id: string): Operation<ActionAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/actions/{id}/cancel", { id }),
    answer: "json",
    keyed: true,
  };
}

/** Deny what waits. */
export function actionsDeny(id: string, body: DecideRequest): Operation<ActionAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/actions/{id}/deny", { id }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** What happened, the oldest first. Your own rows; all, for admins. */
export function auditQuery(query: { user?: string; kind?: string; since?: number; until?: number; after?: number; limit?: number } = {}): Operation<AuditPage> {
  return {
    method: "GET",
    path: "/v1/audit",
    query,
    answer: "json",
    keyed: false,
  };
}

/** The whole chain as lines of JSON. For admins. */
export function auditExport(query: { from?: number } = {}): Operation<string> {
  return {
    method: "GET",
    path: "/v1/audit/export",
    query,
    answer: "text",
    keyed: false,
  };
}

/** Whether the chain is whole: no edit, deletion, insertion, reordering or cut tail. For admins. */
export function auditVerify(): Operation<VerdictAnswer> {
  return {
    method: "GET",
    path: "/v1/audit/verify",
    answer: "json",
    keyed: false,
  };
}

/** Your keys, the oldest first; all, for admins. No secret is among them. */
export function peopleKeys(query: { after?: string; limit?: number } = {}): Operation<KeyPage> {
  return {
    method: "GET",
    path: "/v1/keys",
    query,
    answer: "json",
    keyed: false,
  };
}

/** Make a key, of no more than your own role and for no longer than the key that you use. */
export function peopleAddKey(body: KeyRequest): Operation<NewKeyAnswer> {
  return {
    method: "POST",
    path: "/v1/keys",
    json: body,
    answer: "json",
    keyed: false,
  };
}

/** Revoke a key, for good: one of your own whose role is no more than that of the key that you use; any, for admins. */
export function peopleRevokeKey(id: string): Operation<void> {
  return {
    method: "DELETE",
    path: pathOf("/v1/keys/{id}", { id }),
    answer: "none",
    keyed: false,
  };
}

/** Exchange the one-time token of the first start for an admin's key. */
export function peopleLogin(body: LoginRequest): Operation<NewKeyAnswer> {
  return {
    method: "POST",
    path: "/v1/login",
    json: body,
    answer: "json",
    keyed: false,
  };
}

/** Who you are. */
export function peopleMe(): Operation<MeAnswer> {
  return {
    method: "GET",
    path: "/v1/me",
    answer: "json",
    keyed: false,
  };
}

/** Counts for Prometheus. For admins and viewers of everything. */
export function statusMetrics(): Operation<string> {
  return {
    method: "GET",
    path: "/v1/metrics",
    answer: "text",
    keyed: false,
  };
}

/** Run one command to its end. */
export function run(body: RunRequest): Operation<RunAnswer> {
  return {
    method: "POST",
    path: "/v1/run",
    json: body,
    answer: "json",
    keyed: true,
  };
}

/**
 * Run one command and hear of it as it goes.
 *
 * Server-Sent Events: `start` `{"id"}`, `stdout` and `stderr` `{"text"}` (or `{"base64"}`), `denial`, then `exit` with
 * what `POST /v1/run` answers, or `error`. A client that goes away ends the command, unless `keep` is true: then
 * another request with `Last-Event-ID` goes on after that event.
 */
export function runStream(body: RunRequest): Operation<never> {
  return {
    method: "POST",
    path: "/v1/run/stream",
    json: body,
    answer: "events",
    keyed: false,
  };
}

/** Your sandboxes, the newest first. */
export function sandboxesList(query: { state?: string; after?: string; limit?: number; all?: boolean } = {}): Operation<SandboxPage> {
  return {
    method: "GET",
    path: "/v1/sandboxes",
    query,
    answer: "json",
    keyed: false,
  };
}

/** Make a sandbox. */
export function sandboxesCreate(body: CreateRequest): Operation<SandboxAnswer> {
  return {
    method: "POST",
    path: "/v1/sandboxes",
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** One sandbox. */
export function sandboxesGet(id: string): Operation<SandboxWhole> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}", { id }),
    answer: "json",
    keyed: false,
  };
}

/** End a sandbox, and take away all but its workspace. */
export function sandboxesDelete(id: string, query: { action?: string; wait_ms?: number } = {}): Operation<void> {
  return {
    method: "DELETE",
    path: pathOf("/v1/sandboxes/{id}", { id }),
    query,
    answer: "none",
    keyed: false,
  };
}

/** Apply what a sandbox wrote to a copy-on-write workspace to the workspace beneath: all that is chosen, or nothing. */
export function snapshotsCommit(id: string, body: CommitRequest): Operation<CommitAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/commit", { id }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** What a sandbox changed: as a list, or as text that `patch` and git read. */
export function snapshotsDiff(id: string, query: { since?: string; format?: string } = {}): Operation<DiffAnswer> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}/diff", { id }),
    query,
    answer: "json",
    keyed: false,
  };
}

/** Run a command in a sandbox to its end. */
export function sandboxesExec(id: string, body: ExecRequest): Operation<ExecAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/exec", { id }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** Run a command in a sandbox and hear of it as it goes: events as of `POST /v1/run/stream`. */
export function sandboxesExecStream(id: string, body: ExecRequest): Operation<never> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/exec/stream", { id }),
    json: body,
    answer: "events",
    keyed: false,
  };
}

/** Let a sandbox live longer. */
export function sandboxesExtend(id: string, body: ExtendRequest): Operation<void> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/extend", { id }),
    json: body,
    answer: "none",
    keyed: true,
  };
}

/** Read a file whole. */
export function filesRead(id: string, query: { path: string }): Operation<Uint8Array> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}/files", { id }),
    query,
    answer: "bytes",
    keyed: false,
  };
}

/** Write a file whole: a reader sees the old or the new one. */
export function filesWrite(id: string, body: Uint8Array, query: { path: string; mode?: string; action?: string; wait_ms?: number }): Operation<void> {
  return {
    method: "PUT",
    path: pathOf("/v1/sandboxes/{id}/files", { id }),
    query,
    content: body, media: "application/octet-stream",
    answer: "none",
    keyed: false,
  };
}

/** Remove a file or directory. */
export function filesRemove(id: string, query: { path: string; recursive?: boolean; action?: string; wait_ms?: number }): Operation<void> {
  return {
    method: "DELETE",
    path: pathOf("/v1/sandboxes/{id}/files", { id }),
    query,
    answer: "none",
    keyed: false,
  };
}

/** Make a directory. */
export function filesMakeDirectory(id: string, body: DirectoryRequest): Operation<void> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/files/directories", { id }),
    json: body,
    answer: "none",
    keyed: true,
  };
}

/** What is in a directory, by name. */
export function filesList(id: string, query: { path: string; after?: string; limit?: number }): Operation<EntryPage> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}/files/list", { id }),
    query,
    answer: "json",
    keyed: false,
  };
}

/** Move a file or directory. */
export function filesRename(id: string, body: RenameRequest): Operation<void> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/files/move", { id }),
    json: body,
    answer: "none",
    keyed: true,
  };
}

/** What a path is; a link itself, not where it leads. */
export function filesStat(id: string, query: { path: string }): Operation<StatAnswer> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}/files/stat", { id }),
    query,
    answer: "json",
    keyed: false,
  };
}

/** A directory, or a file, as a tar. Links are in it as links; a stream that breaks off was not whole. */
export function filesDownload(id: string, query: { path: string }): Operation<Uint8Array> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}/files/tree", { id }),
    query,
    answer: "bytes",
    keyed: false,
  };
}

/**
 * Write the files and directories of a tar below a directory, which is made where it isn't there. Links, devices, `..` and
 * absolute paths are refused, and so is a tree with a file that a rule would have a person look at: nothing is written then.
 */
export function filesUpload(id: string, body: Uint8Array, query: { path: string }): Operation<UploadAnswer> {
  return {
    method: "PUT",
    path: pathOf("/v1/sandboxes/{id}/files/tree", { id }),
    query,
    content: body, media: "application/x-tar",
    answer: "json",
    keyed: false,
  };
}

/**
 * Hear of changes below a path: Server-Sent Events `start`, then `change` `{"change","path"}`, until the sandbox ends.
 * `overflow` as the change means that some were too many to be told: look again.
 */
export function filesWatch(id: string, query: { path: string; recursive?: boolean }): Operation<never> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}/files/watch", { id }),
    query,
    answer: "events",
    keyed: false,
  };
}

/**
 * Make sandboxes that begin where this one is, each with its own copy-on-write workspace and the same policy, if the
 * caller may still have it. A snapshot of it is taken for that, and stays.
 */
export function snapshotsFork(id: string, body: ForkRequest): Operation<ForkAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/fork", { id }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** Stop every process of a sandbox until it is resumed. */
export function sandboxesPause(id: string): Operation<void> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/pause", { id }),
    answer: "none",
    keyed: true,
  };
}

/** The ports of a sandbox that are shown. */
export function portsList(id: string): Operation<PortsAnswer> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}/ports", { id }),
    answer: "json",
    keyed: false,
  };
}

/**
 * Show a port of the sandbox's own loopback: requests to `/v1/sandboxes/{id}/ports/{port}/http/…`, with a key of its owner,
 * go to what listens there.
 */
export function portsShow(id: string, body: PortRequest): Operation<PortAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/ports", { id }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** Show a port no longer. */
export function portsHide(id: string, port: number): Operation<void> {
  return {
    method: "DELETE",
    path: pathOf("/v1/sandboxes/{id}/ports/{port}", { id, port }),
    answer: "none",
    keyed: false,
  };
}

/**
 * A ticket for one WebSocket to a shown port of this sandbox: what a browser uses, as `?ticket=`, since it can't send a key with
 * one. Good once, for half a minute.
 */
export function portsTicket(id: string, port: number): Operation<TicketAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/ports/{port}/ticket", { id, port }),
    answer: "json",
    keyed: false,
  };
}

/** The commands of a sandbox, running and ended. */
export function processesList(id: string): Operation<JsonObject[]> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}/processes", { id }),
    answer: "json",
    keyed: false,
  };
}

/** Start a command and leave it running; its output is kept. */
export function processesStart(id: string, body: ExecRequest): Operation<ProcessAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/processes", { id }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** What a kept command has written, from an offset on. */
export function processesLogs(id: string, process: number, query: { from?: number; limit?: number } = {}): Operation<LogsAnswer> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}/processes/{process}/logs", { id, process }),
    query,
    answer: "json",
    keyed: false,
  };
}

/** Signal a command. */
export function processesSignal(id: string, process: number, body: SignalRequest): Operation<void> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/processes/{process}/signal", { id, process }),
    json: body,
    answer: "none",
    keyed: true,
  };
}

/** Write to a kept command. Refused where a rule would have a person look at it first, or at that command. */
export function processesStdin(id: string, process: number, body: StdinRequest): Operation<void> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/processes/{process}/stdin", { id, process }),
    json: body,
    answer: "none",
    keyed: true,
  };
}

/** Let a paused sandbox go on. */
export function sandboxesResume(id: string): Operation<void> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/resume", { id }),
    answer: "none",
    keyed: true,
  };
}

/** Bring a sandbox's files back to a snapshot. Its processes wait meanwhile, and go on. */
export function snapshotsRollback(id: string, body: RollbackRequest): Operation<RollbackAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/rollback", { id }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** Take a snapshot of a sandbox's workspace, and of its home where that is its own. Its processes wait meanwhile. */
export function snapshotsTake(id: string, body: SnapshotRequest): Operation<SnapshotAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/snapshots", { id }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** What a sandbox uses: processors, memory, processes, disk, network. */
export function sandboxesStats(id: string): Operation<JsonObject> {
  return {
    method: "GET",
    path: pathOf("/v1/sandboxes/{id}/stats", { id }),
    answer: "json",
    keyed: false,
  };
}

/**
 * A ticket for one terminal of this sandbox: what a browser uses, which can't send a key with a WebSocket. Good once, for
 * half a minute.
 */
export function sandboxesTicket(id: string): Operation<TicketAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/sandboxes/{id}/terminal/ticket", { id }),
    answer: "json",
    keyed: false,
  };
}

/** The names of your secrets. */
export function secretsList(query: { after?: string; limit?: number } = {}): Operation<SecretPage> {
  return {
    method: "GET",
    path: "/v1/secrets",
    query,
    answer: "json",
    keyed: false,
  };
}

/** Keep a secret, in place of an older one of that name. A sandbox that has it already goes on with the old one. */
export function secretsSet(name: string, body: SecretRequest): Operation<void> {
  return {
    method: "PUT",
    path: pathOf("/v1/secrets/{name}", { name }),
    json: body,
    answer: "none",
    keyed: false,
  };
}

/** Remove a secret. A sandbox that has it already goes on with it. */
export function secretsDelete(name: string, query: { action?: string; wait_ms?: number } = {}): Operation<void> {
  return {
    method: "DELETE",
    path: pathOf("/v1/secrets/{name}", { name }),
    query,
    answer: "none",
    keyed: false,
  };
}

/** The skills that you may see, by domain and name. */
export function skillsList(query: { domain?: string; after?: string; limit?: number } = {}): Operation<SkillPage> {
  return {
    method: "GET",
    path: "/v1/skills",
    query,
    answer: "json",
    keyed: false,
  };
}

/** Add a skill from an archive (`.skill`, zip or tar, compressed or not), to a domain that your role may publish to. */
export function skillsUpload(body: Uint8Array, query: { domain: string; name?: string; replace?: boolean; accept_findings?: boolean; action?: string; wait_ms?: number }): Operation<UploadedAnswer> {
  return {
    method: "POST",
    path: "/v1/skills",
    query,
    content: body, media: "application/octet-stream",
    answer: "json",
    keyed: true,
  };
}

/** What is suspicious in an archive. Nothing is kept. */
export function skillsLintArchive(body: Uint8Array): Operation<JsonObject> {
  return {
    method: "POST",
    path: "/v1/skills/lint",
    content: body, media: "application/octet-stream",
    answer: "json",
    keyed: true,
  };
}

/** Find skills by words of their names, descriptions and manifests. */
export function skillsSearch(query: { q: string; limit?: number }): Operation<SearchAnswer> {
  return {
    method: "GET",
    path: "/v1/skills/search",
    query,
    answer: "json",
    keyed: false,
  };
}

/** Whether an archive's manifest is valid. Nothing is kept. */
export function skillsValidateArchive(body: Uint8Array, query: { strict?: boolean } = {}): Operation<JsonObject> {
  return {
    method: "POST",
    path: "/v1/skills/validate",
    query,
    content: body, media: "application/octet-stream",
    answer: "json",
    keyed: true,
  };
}

/** One skill: what its manifest says, what it asks for, which files it has. */
export function skillsGet(domain: string, name: string): Operation<JsonObject> {
  return {
    method: "GET",
    path: pathOf("/v1/skills/{domain}/{name}", { domain, name }),
    answer: "json",
    keyed: false,
  };
}

/** Take a skill out of the library, of a domain that your role may overwrite. Its versions are kept. */
export function skillsDelete(domain: string, name: string, query: { action?: string; wait_ms?: number } = {}): Operation<void> {
  return {
    method: "DELETE",
    path: pathOf("/v1/skills/{domain}/{name}", { domain, name }),
    query,
    answer: "none",
    keyed: false,
  };
}

/** A skill as an archive: the same skill, the same bytes. */
export function skillsArchive(domain: string, name: string): Operation<Uint8Array> {
  return {
    method: "GET",
    path: pathOf("/v1/skills/{domain}/{name}/archive", { domain, name }),
    answer: "bytes",
    keyed: false,
  };
}

/** One file of a skill. */
export function skillsFile(domain: string, name: string, query: { path?: string } = {}): Operation<Uint8Array> {
  return {
    method: "GET",
    path: pathOf("/v1/skills/{domain}/{name}/file", { domain, name }),
    query,
    answer: "bytes",
    keyed: false,
  };
}

/** What is suspicious in a skill. Advice: the sandbox is the control. */
export function skillsLint(domain: string, name: string): Operation<JsonObject> {
  return {
    method: "GET",
    path: pathOf("/v1/skills/{domain}/{name}/lint", { domain, name }),
    answer: "json",
    keyed: false,
  };
}

/** Run a script of a skill in a fresh sandbox, within your role's ceiling. */
export function skillsRun(domain: string, name: string, body: SkillRunRequest): Operation<RunAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/skills/{domain}/{name}/run", { domain, name }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** Whether a skill's manifest is valid. */
export function skillsValidate(domain: string, name: string, query: { strict?: boolean } = {}): Operation<JsonObject> {
  return {
    method: "GET",
    path: pathOf("/v1/skills/{domain}/{name}/validate", { domain, name }),
    query,
    answer: "json",
    keyed: false,
  };
}

/** What became of a skill. */
export function skillsVersions(domain: string, name: string): Operation<VersionsAnswer> {
  return {
    method: "GET",
    path: pathOf("/v1/skills/{domain}/{name}/versions", { domain, name }),
    answer: "json",
    keyed: false,
  };
}

/** Your snapshots, the newest first. */
export function snapshotsList(query: { sandbox?: string; user?: string; after?: string; limit?: number } = {}): Operation<SnapshotPage> {
  return {
    method: "GET",
    path: "/v1/snapshots",
    query,
    answer: "json",
    keyed: false,
  };
}

/** Take in a snapshot that was exported, as one of your own. One with a file that a rule would have a person look at is refused. */
export function snapshotsImport(body: Uint8Array): Operation<SnapshotAnswer> {
  return {
    method: "POST",
    path: "/v1/snapshots/import",
    content: body, media: "application/x-tar",
    answer: "json",
    keyed: false,
  };
}

/** One snapshot, by id or name. */
export function snapshotsGet(id: string, query: { user?: string } = {}): Operation<SnapshotAnswer> {
  return {
    method: "GET",
    path: pathOf("/v1/snapshots/{id}", { id }),
    query,
    answer: "json",
    keyed: false,
  };
}

/** Remove a snapshot. Sandboxes that were made of it stay. */
export function snapshotsDelete(id: string, query: { user?: string; action?: string; wait_ms?: number } = {}): Operation<void> {
  return {
    method: "DELETE",
    path: pathOf("/v1/snapshots/{id}", { id }),
    query,
    answer: "none",
    keyed: false,
  };
}

/** A snapshot whole, as a tar that `POST /v1/snapshots/import` and `ringfence snapshot import` take. */
export function snapshotsExport(id: string, query: { user?: string } = {}): Operation<Uint8Array> {
  return {
    method: "GET",
    path: pathOf("/v1/snapshots/{id}/export", { id }),
    query,
    answer: "bytes",
    keyed: false,
  };
}

/**
 * Make sandboxes that begin where a snapshot is. Their policy is that of the sandbox it was taken of, where that is still
 * known and the caller may have it.
 */
export function snapshotsForkSnapshot(id: string, body: ForkRequest): Operation<ForkAnswer> {
  return {
    method: "POST",
    path: pathOf("/v1/snapshots/{id}/fork", { id }),
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** How the server is. */
export function status(): Operation<StatusAnswer> {
  return {
    method: "GET",
    path: "/v1/status",
    answer: "json",
    keyed: false,
  };
}

/** What you hold on the server's disk, and may. */
export function workspacesUsage(): Operation<HeldAnswer> {
  return {
    method: "GET",
    path: "/v1/usage",
    answer: "json",
    keyed: false,
  };
}

/** All users, by name. For admins. */
export function peopleUsers(query: { after?: string; limit?: number } = {}): Operation<UserPage> {
  return {
    method: "GET",
    path: "/v1/users",
    query,
    answer: "json",
    keyed: false,
  };
}

/** Make a user. For admins. */
export function peopleAddUser(body: UserRequest): Operation<UserAnswer> {
  return {
    method: "POST",
    path: "/v1/users",
    json: body,
    answer: "json",
    keyed: true,
  };
}

/** Remove a user with their keys and secrets. Their workspaces and snapshots stay. For admins. */
export function peopleRemoveUser(name: string): Operation<void> {
  return {
    method: "DELETE",
    path: pathOf("/v1/users/{name}", { name }),
    answer: "none",
    keyed: false,
  };
}

/** Change a user's role, or let them in or not. For admins. */
export function peopleChangeUser(name: string, body: UserChange): Operation<UserAnswer> {
  return {
    method: "PATCH",
    path: pathOf("/v1/users/{name}", { name }),
    json: body,
    answer: "json",
    keyed: false,
  };
}

/** Your workspaces, by name. */
export function workspacesList(query: { after?: string; limit?: number; user?: string } = {}): Operation<WorkspacePage> {
  return {
    method: "GET",
    path: "/v1/workspaces",
    query,
    answer: "json",
    keyed: false,
  };
}

/** One of your workspaces, with what it holds. */
export function workspacesGet(name: string, query: { user?: string } = {}): Operation<WorkspaceAnswer> {
  return {
    method: "GET",
    path: pathOf("/v1/workspaces/{name}", { name }),
    query,
    answer: "json",
    keyed: false,
  };
}

/** Remove a workspace with all its files. Refused while a sandbox lives in it. */
export function workspacesDelete(name: string, query: { user?: string; action?: string; wait_ms?: number } = {}): Operation<void> {
  return {
    method: "DELETE",
    path: pathOf("/v1/workspaces/{name}", { name }),
    query,
    answer: "none",
    keyed: false,
  };
}

/** What one of your workspaces holds. */
export function workspacesUsageOf(name: string, query: { user?: string } = {}): Operation<WorkspaceUsage> {
  return {
    method: "GET",
    path: pathOf("/v1/workspaces/{name}/usage", { name }),
    query,
    answer: "json",
    keyed: false,
  };
}
