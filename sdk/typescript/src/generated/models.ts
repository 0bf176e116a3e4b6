// Generated from docs/openapi.json by sdk/generate: do not edit.

/** An object of JSON that has no fixed shape. */
export type JsonObject = Record<string, unknown>;

/** Something that somebody wants to do, and what became of it. */
export interface ActionAnswer {
  created: number;
  decided_at?: number | null;
  decided_by?: string | null;
  decided_why?: string | null;
  /** Of all of that. Only what has this digest is begun. */
  digest: string;
  /** Until then it waits for a decision, and once approved for its submitter. */
  expires: number;
  finished?: number | null;
  id: string;
  /** run, exec, sandbox.create, file.delete, … */
  kind: string;
  /** low, medium, high or critical */
  level: string;
  /** Why it is of this level, the weightiest first. */
  reasons: string[];
  /** How long the approval holds: once, session, hour or always. */
  remember?: string | null;
  /** Exactly what would be done: command, policy, digests of files. Values that look like credentials are masked. */
  request: JsonObject;
  result?: JsonObject | null;
  sandbox?: string | null;
  /** waiting, approved, denied, cancelled, expired, running, done or failed */
  state: string;
  summary: string;
  user: string;
}

export interface ActionPage {
  actions: ActionAnswer[];
  /** For `after` of the next page; null at the end. */
  next?: string | null;
}

export interface AuditPage {
  /** For `after` of the next page; null at the end. */
  next?: number | null;
  rows: JsonObject[];
}

export interface ChangeAnswer {
  /** added, changed, mode, removed or replaced */
  change: string;
  /** It was changed beneath too: it can't be committed. */
  conflict: boolean;
  path: string;
  /** workspace or home */
  root: string;
  size?: number | null;
}

export interface CommitAnswer {
  applied: JsonObject[];
  /** Protected names, pipes and the like, which are never committed. */
  left_out: JsonObject[];
}

export interface CommitRequest {
  /** The action that was approved for exactly this request. */
  action?: string | null;
  /** These paths of the workspace, and what is in them; all, if there are none. */
  only?: string[];
  /** Where a person has to decide, wait so long for that before the answer is 202; at most 300000. */
  wait_ms?: number | null;
}

/** A sandbox that stays. */
export interface CreateRequest {
  /** The action that was approved for exactly this request. */
  action?: string | null;
  /**
   * native, claude-code, codex or gemini: begin from the defaults of that client's own sandbox, as far as your role may have
   * them. What is here besides holds over it.
   */
  compat?: string | null;
  /** Where its commands start. */
  cwd?: string | null;
  /** Variables of all its commands. */
  env?: Record<string, string>;
  files?: FileWanted[];
  /** It ends when nothing was done in it for so long. */
  idle_ms?: number | null;
  /** Show the system directories of this image in place of the host's: the one of your role's ceiling. */
  image?: string | null;
  /** Yours to give and to find it by. */
  labels?: JsonObject;
  /** For people; one living sandbox of yours has it at a time. */
  name?: string | null;
  network?: NetworkWanted | null;
  /** The workspace is copy-on-write: see `diff` and `commit`. */
  overlay?: boolean;
  policy?: JsonObject | null;
  profile?: string | null;
  secrets?: SecretWanted[];
  skills?: boolean;
  strict?: boolean;
  trace?: boolean;
  /** It ends after so long. */
  ttl_ms?: number | null;
  /** Where a person has to decide, wait so long for that before the answer is 202; at most 300000. */
  wait_ms?: number | null;
  workspace?: string | null;
}

export interface DecideRequest {
  /** For whoever asked. */
  reason?: string | null;
  /** How long an approval holds for exactly the same by the same user: once (the default), session, hour or always. */
  remember?: string | null;
}

/** A file or directory of a sandbox, to be removed. */
export interface DeleteSubmit {
  path: string;
  recursive?: boolean;
  sandbox: string;
}

export interface DiffAnswer {
  changes: ChangeAnswer[];
}

export interface DirectoryRequest {
  /** Also those above it; one that is there already is fine. */
  parents?: boolean;
  path: string;
}

/** One entry of a directory. */
export interface EntryAnswer {
  /** file, directory, symlink or other */
  kind: string;
  /** With replacement characters where it is not UTF-8. */
  name: string;
}

export interface EntryPage {
  entries: EntryAnswer[];
  /** For `after` of the next page; null at the end. */
  next?: string | null;
}

/** The body of every error. */
export interface ErrorBody {
  error: ErrorDetail;
}

export interface ErrorDetail {
  /** Stable: programs match on it. */
  code: string;
  /** What to do next. */
  hint: string;
  message: string;
  /** Paths of the workspace that it is about, where there are any: what a commit conflicts with, say. */
  paths?: string[];
  /** Quote it when you ask for help; the server's log has it too. */
  request_id: string;
}

/** What came of a command. */
export interface ExecAnswer {
  duration_ms: number;
  /** Why the command itself could not be started. */
  error?: JsonObject | null;
  exit_code: number;
  result: JsonObject;
  signal?: number | null;
  stderr: string;
  stderr_base64?: string | null;
  stdout: string;
  stdout_base64?: string | null;
  timed_out: boolean;
  truncated: boolean;
}

/** One command in a sandbox that stays. */
export interface ExecRequest {
  /** The action that was approved for exactly this request. */
  action?: string | null;
  /** The program and its arguments; no shell is in between. */
  command: string[];
  cwd?: string | null;
  /** On top of the sandbox's own. */
  env?: Record<string, string>;
  /** A command whose stream breaks off goes on, and the stream can be taken up with `Last-Event-ID`. */
  keep?: boolean;
  stdin?: string | null;
  stdin_base64?: string | null;
  /** The command and all that it started end after this time; 30000 where none is given, for a process none. */
  timeout_ms?: number | null;
  /** Where a person has to decide, wait so long for that before the answer is 202; at most 300000. */
  wait_ms?: number | null;
}

/** A command in a sandbox that is there. */
export interface ExecSubmit {
  request: ExecRequest;
  sandbox: string;
}

export interface ExtendRequest {
  idle_ms?: number | null;
  /** From now. */
  ttl_ms?: number | null;
}

export interface FileWanted {
  content?: string | null;
  /** In place of `content`, for what is not text. */
  content_base64?: string | null;
  /** Permission bits; 420 (octal 644) where none are given. */
  mode?: number | null;
  /** Relative to the workspace. */
  path: string;
}

export interface ForkAnswer {
  sandboxes: SandboxAnswer[];
}

export interface ForkRequest {
  /** The action that was approved for exactly this request. */
  action?: string | null;
  /** How many; one where none is given. */
  count?: number | null;
  /** They end when nothing was done in them for so long. */
  idle_ms?: number | null;
  /** They end after so long. */
  ttl_ms?: number | null;
  /** Where a person has to decide, wait so long for that before the answer is 202; at most 300000. */
  wait_ms?: number | null;
}

export interface HeldAnswer {
  /** What your workspaces, snapshots and sandboxes take up on disk together. */
  bytes: number;
  files: number;
  /** What they may take up: beyond it nothing more is written, and commands that write are ended. */
  limit: number;
}

export interface HitAnswer {
  description: string;
  domain: string;
  name: string;
  /** A piece of its text, and where the words are in it. */
  snippet: JsonObject;
}

export interface KeyAnswer {
  created: number;
  expires?: number | null;
  id: string;
  label?: string | null;
  last_used?: number | null;
  revoked?: number | null;
  role: string;
  user: string;
}

export interface KeyPage {
  keys: KeyAnswer[];
  /** For `after` of the next page; null at the end. */
  next?: string | null;
}

export interface KeyRequest {
  /**
   * From now.
   * A key that ends makes none that outlives it: the answer says when this one ends.
   */
  expires_ms?: number | null;
  label?: string | null;
  /** Your own role where none is given; never more than the user's. */
  role?: string | null;
  /** Whose; yours where none is given. Others' are for admins. */
  user?: string | null;
}

export interface LoginRequest {
  /** What `ringfence serve` printed at its first start. */
  token: string;
}

export interface LogsAnswer {
  /** Bytes that are no longer kept. */
  dropped: number;
  /** For `from` of the next request. */
  next: number;
  stderr: string;
  stderr_base64?: string | null;
  stdout: string;
  stdout_base64?: string | null;
}

/** Who the key belongs to. */
export interface MeAnswer {
  role: string;
  user: string;
}

export interface NetworkWanted {
  /** Hosts, as in `network.allow` of a policy. None, with `enabled`: every public host. */
  allowed_domains?: string[];
  /** False: loopback only, whatever `allowed_domains` says. */
  enabled?: boolean;
}

/** A key that was just made. */
export interface NewKeyAnswer {
  created: number;
  expires?: number | null;
  id: string;
  label?: string | null;
  last_used?: number | null;
  revoked?: number | null;
  role: string;
  user: string;
  /** Shown this once; empty where the answer is told again for an `Idempotency-Key`. */
  key: string;
}

export interface PortAnswer {
  /** Below it: any method, any path. */
  path: string;
  port: number;
}

export interface PortRequest {
  port: number;
}

export interface PortsAnswer {
  /** At most 32. */
  ports: PortAnswer[];
}

/** A command that runs on without anybody listening. */
export interface ProcessAnswer {
  process: number;
}

/** An approval that holds for more than one action. */
export interface RememberedAnswer {
  /** Who approved. */
  by: string;
  /** Of exactly what it holds for. */
  digest: string;
  id: string;
  kind: string;
  made: number;
  sandbox?: string | null;
  /** session, hour or always */
  scope: string;
  until?: number | null;
  user: string;
}

export interface RememberedPage {
  /** For `after` of the next page; null at the end. */
  next?: string | null;
  remembered: RememberedAnswer[];
}

export interface RenameRequest {
  /** The action that was approved for exactly this request. */
  action?: string | null;
  from: string;
  replace?: boolean;
  to: string;
  /** Where a person has to decide, wait so long for that before the answer is 202; at most 300000. */
  wait_ms?: number | null;
}

export interface RollbackAnswer {
  /** Whose mode or time alone was wrong. */
  attributes_set: number;
  bytes_written: number;
  removed: number;
  snapshot: string;
  unchanged: number;
  written: number;
}

export interface RollbackRequest {
  /** The action that was approved for exactly this request. */
  action?: string | null;
  /** Its id or name. */
  snapshot: string;
  /** Where a person has to decide, wait so long for that before the answer is 202; at most 300000. */
  wait_ms?: number | null;
}

/** What came of a command. */
export interface RunAnswer {
  /** What was blocked, by which rule, and what would allow it. */
  denials: JsonObject[];
  duration_ms: number;
  /** Why the command itself could not be started. */
  error?: JsonObject | null;
  /** As a shell would see it: 128+n for signal n, 124 after a timeout, 126 and 127 for a command that can't be started. */
  exit_code: number;
  /** Connections, by process and host; null where the sandbox had no network. */
  network?: JsonObject | null;
  notes: string[];
  /** Each clause of the policy and the mechanism that enforced it. */
  receipt: JsonObject;
  signal?: number | null;
  stderr?: string;
  stderr_base64?: string | null;
  stdout?: string;
  /** Only where stdout is not UTF-8, and `stdout` has replacement characters. */
  stdout_base64?: string | null;
  timed_out: boolean;
  /** There was more output than is kept. */
  truncated?: boolean;
  usage: UsageAnswer;
}

/** One command and the sandbox for it. */
export interface RunRequest {
  /** The action that was approved for exactly this request: what is here besides must be what was submitted. */
  action?: string | null;
  /** The program and its arguments; no shell is in between. With `skill`, its script and the arguments. */
  command: string[];
  /**
   * native, claude-code, codex or gemini: begin from the defaults of that client's own sandbox, as far as your role may have
   * them. What is here besides holds over it.
   */
  compat?: string | null;
  /** A directory inside. */
  cwd?: string | null;
  env?: Record<string, string>;
  files?: FileWanted[];
  /** Show the system directories of this image in place of the host's: the one of your role's ceiling. */
  image?: string | null;
  /** A command whose stream breaks off goes on, and the stream can be taken up with `Last-Event-ID`. */
  keep?: boolean;
  network?: NetworkWanted | null;
  policy?: JsonObject | null;
  profile?: string | null;
  secrets?: SecretWanted[];
  /**
   * A skill of the library, as `domain/name` or by its name alone: `command` is the path of a script in it and its arguments,
   * or `[]` for the only one that it has.
   */
  skill?: string | null;
  skills?: boolean;
  stdin?: string | null;
  /** In place of `stdin`, for what is not text. */
  stdin_base64?: string | null;
  strict?: boolean;
  /** The command and all that it started end after this time; 30000 where neither this nor the policy says how long. */
  timeout_ms?: number | null;
  trace?: boolean;
  /** Where a person has to decide, wait so long for that before the answer is 202; at most 300000. */
  wait_ms?: number | null;
  workspace?: string | null;
}

/** A sandbox, as lists show it. */
export interface SandboxAnswer {
  /** Milliseconds since 1970, as all times here. */
  created: number;
  ended?: number | null;
  ended_why?: string | null;
  id: string;
  labels: JsonObject;
  name?: string | null;
  /** What this host could not enforce, and what else to know: only in the answer to its making. */
  notes?: string[];
  profile: string;
  /** making, alive or ended */
  state: string;
  user: string;
  workspace?: string | null;
}

export interface SandboxPage {
  /** For `after` of the next page; null at the end. */
  next?: string | null;
  sandboxes: SandboxAnswer[];
}

/** A sandbox whole: what it may do, how that is enforced, what was blocked. */
export interface SandboxWhole {
  /** Milliseconds since 1970, as all times here. */
  created: number;
  ended?: number | null;
  ended_why?: string | null;
  id: string;
  labels: JsonObject;
  name?: string | null;
  /** What this host could not enforce, and what else to know: only in the answer to its making. */
  notes?: string[];
  profile: string;
  /** making, alive or ended */
  state: string;
  user: string;
  workspace?: string | null;
  /** What its keeper tells: policy, receipt, processes; null when it has ended. */
  status?: JsonObject | null;
}

export interface SearchAnswer {
  /** The best first. */
  hits: HitAnswer[];
}

export interface SecretPage {
  /** For `after` of the next page; null at the end. */
  next?: string | null;
  /** Their names; no value is ever told. */
  secrets: string[];
}

export interface SecretRequest {
  /** The action that was approved for exactly this request. */
  action?: string | null;
  /** One line of text, up to 64 KiB. */
  value: string;
  /** Where a person has to decide, wait so long for that before the answer is 202; at most 300000. */
  wait_ms?: number | null;
}

/**
 * One of the caller's own secrets: inside, the variable of that name holds a placeholder; on the way to these hosts, which
 * must be allowed too, the value takes its place.
 */
export interface SecretWanted {
  hosts: string[];
  name: string;
}

export interface SignalRequest {
  /** 15 asks, 9 ends. */
  signal: number;
  /** To all that it started too. */
  tree?: boolean;
}

export interface SkillAnswer {
  /** Null where its manifest can't be read. */
  description?: string | null;
  /** The BLAKE3 of its tree: its version. */
  digest?: string | null;
  domain: string;
  name: string;
  problem?: string | null;
  /** published, edited, unpublished or unfit */
  state: string;
}

export interface SkillPage {
  /** For `after` of the next page; null at the end. */
  next?: string | null;
  skills: SkillAnswer[];
}

/** A script of a skill, and the sandbox for it. */
export interface SkillRunRequest {
  /** The action that was approved for exactly this request. */
  action?: string | null;
  args?: string[];
  env?: Record<string, string>;
  files?: FileWanted[];
  network?: NetworkWanted | null;
  policy?: JsonObject | null;
  profile?: string | null;
  /** Its path in the skill; the only one that it has, where none is given. */
  script?: string | null;
  secrets?: SecretWanted[];
  stdin?: string | null;
  strict?: boolean;
  /** 30000 where neither this nor the policy says how long. */
  timeout_ms?: number | null;
  /** Where a person has to decide, wait so long for that before the answer is 202; at most 300000. */
  wait_ms?: number | null;
  workspace?: string | null;
}

export interface SnapshotAnswer {
  /** Of its files, before those that other snapshots share are counted once. */
  bytes: number;
  /** Milliseconds since 1970. */
  created: number;
  entries: number;
  id: string;
  /** For people; several may have it. */
  name: string;
  /** The sandbox that it was taken of. */
  sandbox: string;
}

export interface SnapshotPage {
  /** For `after` of the next page; null at the end. */
  next?: string | null;
  snapshots: SnapshotAnswer[];
}

export interface SnapshotRequest {
  /** For people; the sandbox's id where none is given. */
  name?: string | null;
}

export interface StatAnswer {
  kind: string;
  /** Permission bits, in octal. */
  mode: string;
  /** Seconds since 1970. */
  modified: number;
  size: number;
  /** Where a symbolic link leads. */
  target?: string | null;
}

export interface StatusAnswer {
  /** Why the audit's anchors can't follow, if so. */
  audit_trouble?: string | null;
  commands_running: number;
  /** Yours; of everybody, for admins. */
  sandboxes: number;
  streams: number;
  uptime_ms: number;
  version: string;
}

export interface StdinRequest {
  base64?: string | null;
  /** Nothing comes after this. */
  close?: boolean;
  text?: string | null;
}

/** One event of a stream, as the document describes it. */
export interface StreamEvent {
  /** A JSON object as text. */
  data: string;
  /** start, stdout, stderr, denial, gap, exit or error */
  event: string;
  /** For `Last-Event-ID`. */
  id?: string | null;
}

/** One of these: what the route of that name would be sent. */
export interface SubmitRequest {
  create?: CreateRequest | null;
  delete?: DeleteSubmit | null;
  exec?: ExecSubmit | null;
  run?: RunRequest | null;
}

export interface TicketAnswer {
  expires_ms: number;
  /** For `?ticket=` of the WebSocket's URL. */
  ticket: string;
}

export interface UploadAnswer {
  bytes: number;
  entries: number;
}

export interface UploadedAnswer {
  /** What it asks for beyond a profile. Nothing is granted by that. */
  asks: JsonObject;
  description: string;
  digest: string;
  /** High and critical ones. */
  findings: JsonObject[];
  /** What was published before. */
  previous?: string | null;
  /** `domain/name` */
  skill: string;
}

export interface UsageAnswer {
  cpu_ms: number;
  max_memory_bytes: number;
  processes: number;
}

export interface UserAnswer {
  created: number;
  disabled: boolean;
  name: string;
  role: string;
}

export interface UserChange {
  /** Their keys stop working as long as they are disabled. */
  disabled?: boolean | null;
  role?: string | null;
}

export interface UserPage {
  /** For `after` of the next page; null at the end. */
  next?: string | null;
  users: UserAnswer[];
}

export interface UserRequest {
  name: string;
  /** viewer, operator, approver or admin */
  role: string;
}

export interface VerdictAnswer {
  /** The digest of the last row: keep it elsewhere, and the tail can't be cut unseen. */
  head: string;
  problems: JsonObject[];
  rows: number;
  whole: boolean;
}

export interface VersionAnswer {
  /** add, publish, rollback or remove */
  action: string;
  /** Seconds since 1970. */
  at: number;
  digest?: string | null;
}

export interface VersionsAnswer {
  /** What the folder holds, where nobody has published that. */
  unpublished?: string | null;
  /** The oldest first. */
  versions: VersionAnswer[];
}

export interface WorkspaceAnswer {
  /** What its files take up. */
  bytes: number;
  files: number;
  limit?: number | null;
  name: string;
  /** Sandboxes that live in it. */
  sandboxes: string[];
}

export interface WorkspacePage {
  /** For `after` of the next page; null at the end. */
  next?: string | null;
  workspaces: WorkspaceAnswer[];
}

export interface WorkspaceUsage {
  bytes: number;
  files: number;
}
