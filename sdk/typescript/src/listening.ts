// Events of the server that are no command's: changes of files, and what happens to actions.

import { setTimeout as sleep } from "node:timers/promises";

import { AnswerNotUnderstood, RingfenceError, StreamBroken } from "./errors.js";
import { EventDecoder, type RawEvent } from "./events.js";
import { type Http, nextChunk, pauseBefore } from "./http.js";
import type { Operation } from "./operation.js";

/** Something below a path that is watched. `overflow` means that some were too many to be told: look again. */
export interface FileChange {
  change: string;
  path: string;
}

/** Something happened to an action. `events({ after: id })` goes on after it. */
export interface ActionEvent {
  id: number;
  action: string;
  user: string;
  state: string;
  at: number;
  by: string | null;
  kind: string | null;
  level: string | null;
  summary: string | null;
}

/**
 * Iterate over it, once. It listens from the moment that it is given; leaving the loop, or `await using`, ends that. Where events
 * have ids, a broken connection is made again after the last one that was read.
 */
export class Events<T> implements AsyncIterable<T>, AsyncDisposable {
  readonly #http: Http;
  readonly #operation: Operation<never>;
  readonly #decode: (raw: RawEvent) => T | undefined;
  readonly #closed = new AbortController();
  readonly #events: AsyncGenerator<T>;
  #first: Response | undefined;
  #readId: string | undefined;

  private constructor(http: Http, operation: Operation<never>, decode: (raw: RawEvent) => T | undefined, after?: string) {
    this.#http = http;
    this.#operation = operation;
    this.#decode = decode;
    this.#readId = after;
    this.#events = this.#read();
  }

  static async open<T>(
    http: Http,
    operation: Operation<never>,
    decode: (raw: RawEvent) => T | undefined,
    after?: string,
  ): Promise<Events<T>> {
    const events = new Events(http, operation, decode, after);
    events.#first = await http.open(operation, after, events.#closed.signal);
    return events;
  }

  [Symbol.asyncIterator](): AsyncIterator<T> {
    return this.#events;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await this.#events.return(undefined).catch(() => undefined);
  }

  async *#read(): AsyncGenerator<T> {
    let failures = 0;
    while (!this.#closed.signal.aborted) {
      let broken: unknown = "it ended too early";
      let reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
      try {
        const response = this.#first ?? (await this.#http.open(this.#operation, this.#readId, this.#closed.signal));
        this.#first = undefined;
        reader = response.body?.getReader();
        const decoder = new EventDecoder();
        for (let chunk = await nextChunk(reader); chunk; chunk = await nextChunk(reader)) {
          for (const raw of decoder.feed(chunk)) {
            if (raw.id !== undefined) {
              this.#readId = raw.id;
              failures = 0;
            }
            if (raw.name === "end") return;
            const event = this.#decode(raw);
            if (event !== undefined) yield event;
          }
        }
      } catch (error) {
        if (this.#closed.signal.aborted) return;
        if (error instanceof RingfenceError) throw error;
        broken = error;
      } finally {
        await reader?.cancel().catch(() => undefined);
      }
      failures += 1;
      if (this.#readId === undefined || failures > this.#http.retries) {
        const what = `${this.#operation.path}: the stream broke off\n  listen again, and look at what is there`;
        throw new StreamBroken(what, { cause: broken });
      }
      await sleep(pauseBefore(failures - 1));
    }
  }
}

export function fileChangeOf(raw: RawEvent): FileChange | undefined {
  return raw.name === "change" ? parsed<FileChange>(raw) : undefined;
}

export function actionEventOf(raw: RawEvent): ActionEvent | undefined {
  return raw.name === "action" ? { ...parsed<ActionEvent>(raw), id: Number(raw.id) } : undefined;
}

function parsed<T extends object>(raw: RawEvent): T {
  try {
    const data: unknown = JSON.parse(raw.data);
    if (typeof data !== "object" || data === null) throw new TypeError("it is no object");
    return data as T;
  } catch (error) {
    throw new AnswerNotUnderstood(`a stream, its event ${raw.name}`, error);
  }
}
