// Sandboxes that stay: commands in them, and their end.

import { NotFound, SandboxEnded } from "./errors.js";
import { Files } from "./files.js";
import type {
  ChangeAnswer,
  CommitAnswer,
  CommitRequest,
  CreateRequest,
  ExecRequest,
  ExtendRequest,
  ForkRequest,
  JsonObject,
  SandboxAnswer,
  SandboxWhole,
} from "./generated/models.js";
import * as operations from "./generated/operations.js";
import { type Http, commandMs } from "./http.js";
import type { Operation } from "./operation.js";
import { paged } from "./paging.js";
import { Ports } from "./ports.js";
import { Processes } from "./processes.js";
import { type Command, type CommandResult, argv, resultOf } from "./result.js";
import { SandboxSnapshots } from "./snapshots.js";
import { Stream } from "./stream.js";
import { Terminal, type TerminalOptions } from "./terminal.js";

/** Options of `POST /v1/sandboxes/{id}/exec`. */
export type ExecOptions = Omit<ExecRequest, "command"> & { signal?: AbortSignal };

/** One sandbox. With `await using` it is deleted at the end of its block, however that comes. Its workspace stays. */
export class Sandbox implements AsyncDisposable {
  readonly files: Files;
  readonly processes: Processes;
  readonly snapshots: SandboxSnapshots;
  readonly ports: Ports;

  constructor(
    readonly http: Http,
    readonly id: string,
    /** What the server told when it was made or listed. */
    readonly answer?: SandboxAnswer,
  ) {
    this.files = new Files(http, id);
    this.processes = new Processes(http, id);
    this.snapshots = new SandboxSnapshots(http, id);
    this.ports = new Ports(http, id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.delete();
    } catch (error) {
      if (!(error instanceof NotFound || error instanceof SandboxEnded)) throw error;
    }
  }

  /** Run a command to its end. One that fails is a result, and an error only with `check: true`. */
  async run(command: Command, options: ExecOptions & { check?: boolean } = {}): Promise<CommandResult> {
    const { signal, check, ...body } = options;
    const operation = operations.sandboxesExec(this.id, { ...body, command: argv(command) });
    const result = resultOf(await this.http.send(operation, commandMs(body.timeout_ms, undefined), signal));
    return check ? result.check() : result;
  }

  /** Run a command, and hear of it as it goes. It starts when the first event is read, and ends with its stream. */
  stream(command: Command, options: ExecOptions = {}): Stream {
    const { signal, ...body } = options;
    const operation = operations.sandboxesExecStream(this.id, { ...body, command: argv(command) });
    return new Stream(this.http, operation, { keep: body.keep ?? false, signal });
  }

  /** A command on a terminal of its own. Needs a runtime with WebSocket: Node 22 and later. */
  terminal(command: Command = ["sh"], options: TerminalOptions = {}): Promise<Terminal> {
    return Terminal.open(this.http, this.id, argv(command), options);
  }

  /** What it may do, how that is enforced, what was blocked. */
  get(): Promise<SandboxWhole> {
    return this.http.send(operations.sandboxesGet(this.id));
  }

  /** End it, and take away all but its workspace. */
  delete(): Promise<void> {
    return this.http.send(operations.sandboxesDelete(this.id));
  }

  extend(times: ExtendRequest): Promise<void> {
    return this.http.send(operations.sandboxesExtend(this.id, times));
  }

  pause(): Promise<void> {
    return this.http.send(operations.sandboxesPause(this.id));
  }

  resume(): Promise<void> {
    return this.http.send(operations.sandboxesResume(this.id));
  }

  stats(): Promise<JsonObject> {
    return this.http.send(operations.sandboxesStats(this.id));
  }

  /** New sandboxes that begin with its files as they are now: `count` of them, one where none is given. */
  async fork(options: ForkRequest = {}): Promise<Sandbox[]> {
    const answer = await this.http.send(operations.snapshotsFork(this.id, options));
    return answer.sandboxes.map((one) => new Sandbox(this.http, one.id, one));
  }

  /** What changed since a snapshot; without one, since the beginning of a copy-on-write or private workspace. */
  async diff(query: { since?: string } = {}): Promise<ChangeAnswer[]> {
    return (await this.http.send(operations.snapshotsDiff(this.id, query))).changes;
  }

  /** The same, as `patch` and git read it. */
  diffText(query: { since?: string } = {}): Promise<string> {
    const operation = operations.snapshotsDiff(this.id, { ...query, format: "unified" });
    return this.http.send({ ...operation, answer: "text" } as Operation<unknown> as Operation<string>);
  }

  /**
   * Apply a copy-on-write workspace: all that changed, or `only` these paths. What has changed underneath meanwhile is a
   * `Conflict` whose `detail.paths` say with what; nothing is applied then.
   */
  commit(options: CommitRequest = {}): Promise<CommitAnswer> {
    return this.http.send(operations.snapshotsCommit(this.id, options));
  }
}

export class Sandboxes {
  constructor(readonly http: Http) {}

  /** Make a sandbox. Options are those of `POST /v1/sandboxes`; without `workspace` it works in your `default` one. */
  async create(options: CreateRequest = {}): Promise<Sandbox> {
    const answer = await this.http.send(operations.sandboxesCreate(options));
    return new Sandbox(this.http, answer.id, answer);
  }

  /** Make one for a function, and take it away when that is done. */
  async with<T>(work: (sandbox: Sandbox) => Promise<T>, options: CreateRequest = {}): Promise<T> {
    await using sandbox = await this.create(options);
    return await work(sandbox);
  }

  /** One that is there already, by its id; nothing is asked yet. */
  attach(id: string): Sandbox {
    return new Sandbox(this.http, id);
  }

  /** Yours, the newest first; with `all`, for admins, everybody's. */
  async *list(query: { state?: string; all?: boolean } = {}): AsyncGenerator<Sandbox> {
    yield* paged(async (after) => {
      const page = await this.http.send(operations.sandboxesList({ ...query, after }));
      return [page.sandboxes.map((answer) => new Sandbox(this.http, answer.id, answer)), page.next];
    });
  }
}
