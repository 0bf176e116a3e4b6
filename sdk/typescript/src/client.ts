// The client: one-shot runs, and the nouns of the API.

import { Actions } from "./actions.js";
import type { JsonObject, MeAnswer, RunRequest, StatusAnswer } from "./generated/models.js";
import * as operations from "./generated/operations.js";
import { type ClientOptions, Http, commandMs } from "./http.js";
import { Audit, Keys, Secrets, Users, Workspaces } from "./nouns.js";
import type { Operation } from "./operation.js";
import { type Command, type CommandResult, argv, resultOf } from "./result.js";
import { Sandboxes } from "./sandbox.js";
import { Skills } from "./skills.js";
import { Snapshots } from "./snapshots.js";
import { Stream } from "./stream.js";

/** Options of `POST /v1/run`. */
export type RunOptions = Omit<RunRequest, "command"> & { signal?: AbortSignal };

/** A client of one server, for one key. */
export class Ringfence {
  readonly sandboxes: Sandboxes;
  readonly snapshots: Snapshots;
  readonly workspaces: Workspaces;
  readonly skills: Skills;
  readonly secrets: Secrets;
  readonly actions: Actions;
  readonly users: Users;
  readonly keys: Keys;
  readonly audit: Audit;
  readonly #http: Http;

  constructor(options: ClientOptions = {}) {
    this.#http = new Http(options);
    this.sandboxes = new Sandboxes(this.#http);
    this.snapshots = new Snapshots(this.#http);
    this.workspaces = new Workspaces(this.#http);
    this.skills = new Skills(this.#http);
    this.secrets = new Secrets(this.#http);
    this.actions = new Actions(this.#http);
    this.users = new Users(this.#http);
    this.keys = new Keys(this.#http);
    this.audit = new Audit(this.#http);
  }

  /** Any operation of `operations`: every route of the server has one. */
  send<T>(operation: Operation<T>, signal?: AbortSignal): Promise<T> {
    return this.#http.send(operation, this.#http.timeoutMs, signal);
  }

  /**
   * Run one command in a fresh sandbox to its end. A string is for `sh -c`, an array is the program and its arguments.
   * A command that fails is a result, and an error only with `check: true`.
   */
  async run(command: Command, options: RunOptions & { check?: boolean } = {}): Promise<CommandResult> {
    const { signal, check, ...body } = options;
    const operation = operations.run({ ...body, command: argv(command) });
    const result = resultOf(await this.#http.send(operation, commandMs(body.timeout_ms, body.policy), signal));
    return check ? result.check() : result;
  }

  /**
   * Run one command in a fresh sandbox, and hear of it as it goes. It starts when the first event is read, and ends with
   * its stream. With `keep: true` it goes on, and the stream is taken up again when its connection breaks.
   */
  stream(command: Command, options: RunOptions = {}): Stream {
    const { signal, ...body } = options;
    const operation = operations.runStream({ ...body, command: argv(command) });
    return new Stream(this.#http, operation, { keep: body.keep ?? false, signal });
  }

  /** Go on after an event of a stream that was started with `keep: true`, also in another process. */
  resume(lastEventId: string): Stream {
    return new Stream(this.#http, operations.runStream({ command: ["true"] }), { keep: true, lastEventId });
  }

  /** Who the key belongs to. */
  me(): Promise<MeAnswer> {
    return this.send(operations.peopleMe());
  }

  /** What you hold on the server's disk, and may. */
  usage(): Promise<JsonObject> {
    // The document has another noun's fields under this name: what is told is given as it is.
    return this.send(operations.workspacesUsage() as Operation<unknown> as Operation<JsonObject>);
  }

  status(): Promise<StatusAnswer> {
    return this.send(operations.status());
  }
}

/** Run a shell command in a fresh sandbox; its output, errors, status and denials as one text, for a model's tool. */
export async function runSandboxed(command: string, options: RunOptions = {}): Promise<string> {
  return (await new Ringfence().run(command, options)).forModel();
}
