// Commands of a sandbox that run on without anybody listening.

import { setTimeout as sleep } from "node:timers/promises";

import type { ExecRequest, JsonObject, LogsAnswer } from "./generated/models.js";
import * as operations from "./generated/operations.js";
import type { Http } from "./http.js";
import { type Command, argv } from "./result.js";

/** One command that runs on. Its output is kept and can be read from any offset. */
export class Process {
  constructor(
    readonly http: Http,
    readonly sandboxId: string,
    readonly id: number,
  ) {}

  /** What the sandbox tells of it; undefined when it no longer does. */
  async info(): Promise<JsonObject | undefined> {
    const all = await this.http.send(operations.processesList(this.sandboxId));
    return all.find((one) => one["process"] === this.id);
  }

  /** What it has written from byte `from` on; `next` of the answer is where to go on. */
  logs(query: { from?: number; limit?: number } = {}): Promise<LogsAnswer> {
    return this.http.send(operations.processesLogs(this.sandboxId, this.id, query));
  }

  /** Write to its input; with `close` nothing comes after. */
  write(text: string, options: { close?: boolean } = {}): Promise<void> {
    return this.http.send(operations.processesStdin(this.sandboxId, this.id, { text, ...options }));
  }

  /** 15 asks it to end, 9 ends it; `tree` reaches all that it started too. */
  signal(signal: number, options: { tree?: boolean } = {}): Promise<void> {
    return this.http.send(operations.processesSignal(this.sandboxId, this.id, { signal, ...options }));
  }

  kill(): Promise<void> {
    return this.signal(9, { tree: true });
  }

  /** Until it has ended; how, as the sandbox tells it. */
  async wait(options: { signal?: AbortSignal } = {}): Promise<JsonObject> {
    for (let pause = 10; ; pause = Math.min(pause * 2, 500)) {
      const info = await this.info();
      if (!info || info["result"]) return (info?.["result"] ?? {}) as JsonObject;
      await sleep(pause, undefined, options);
    }
  }
}

export class Processes {
  constructor(
    readonly http: Http,
    readonly sandboxId: string,
  ) {}

  /** Start a command and leave it running. */
  async start(command: Command, options: Omit<ExecRequest, "command"> = {}): Promise<Process> {
    const operation = operations.processesStart(this.sandboxId, { ...options, command: argv(command) });
    return new Process(this.http, this.sandboxId, (await this.http.send(operation)).process);
  }

  /** All, running and ended. */
  list(): Promise<JsonObject[]> {
    return this.http.send(operations.processesList(this.sandboxId));
  }

  attach(id: number): Process {
    return new Process(this.http, this.sandboxId, id);
  }
}
