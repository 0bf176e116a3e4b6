// The events of one command as an iterator, taken up again where the connection breaks off.

import { setTimeout as sleep } from "node:timers/promises";

import { NotFound, RingfenceError, StreamBroken } from "./errors.js";
import { type Event, EventDecoder, type ExitEvent, eventOf } from "./events.js";
import type { JsonObject } from "./generated/models.js";
import { type Http, nextChunk, pauseBefore } from "./http.js";
import type { Operation } from "./operation.js";
import { CommandResult } from "./result.js";

export interface StreamOptions {
  keep: boolean;
  lastEventId?: string | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Iterate over it for events; `text()` for output only; `wait()` for the result. It can be read once.
 *
 * The command ends when its stream is left or closed, unless it was started with `keep: true`. Only then can a broken
 * stream be taken up again.
 */
export class Stream implements AsyncIterable<Event>, AsyncDisposable {
  /** How the command ended, once it has. */
  exit: ExitEvent | undefined;
  /** The last event that was given: `resume` goes on after it, in another process too. */
  lastEventId: string | undefined;

  readonly #http: Http;
  readonly #operation: Operation<never>;
  readonly #keep: boolean;
  readonly #closed = new AbortController();
  readonly #signal: AbortSignal;
  readonly #events: AsyncGenerator<Event>;
  #readId: string | undefined;

  constructor(http: Http, operation: Operation<never>, options: StreamOptions) {
    this.#http = http;
    this.#operation = operation;
    this.#keep = options.keep;
    this.#readId = this.lastEventId = options.lastEventId;
    this.#signal = options.signal ? AbortSignal.any([this.#closed.signal, options.signal]) : this.#closed.signal;
    this.#events = this.#read();
  }

  [Symbol.asyncIterator](): AsyncIterator<Event> {
    return this.#events;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Leave it. The command ends, unless it is kept. */
  async close(): Promise<void> {
    this.#closed.abort(new StreamBroken("the stream was closed\n  leave it open until the command has ended"));
    await this.#events.return(undefined).catch(() => undefined);
  }

  /** What the command writes, stdout and stderr together, as it comes. */
  async *text(): AsyncGenerator<string> {
    for await (const event of this) {
      if (event.type === "stdout" || event.type === "stderr") yield event.text;
    }
  }

  /** Read to the end, and give what was read: all of it, where nothing was read before. */
  async wait(options: { check?: boolean } = {}): Promise<CommandResult> {
    const output = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
    const denials: JsonObject[] = [];
    let gaps = 0;
    for await (const event of this) {
      if (event.type === "stdout" || event.type === "stderr") output[event.type].push(event.data);
      else if (event.type === "denial") denials.push(event.facts);
      else if (event.type === "gap") gaps += event.events;
    }
    if (!this.exit) throw new StreamBroken("the stream was closed before the command ended\n  leave it open");
    const result = new CommandResult({
      exit_code: this.exit.code,
      stdout_bytes: new Uint8Array(Buffer.concat(output.stdout)),
      stderr_bytes: new Uint8Array(Buffer.concat(output.stderr)),
      signal: this.exit.signal,
      timed_out: this.exit.timed_out,
      truncated: gaps > 0,
      duration_ms: this.exit.duration_ms,
      denials,
      facts: this.exit.facts,
    });
    return options.check ? result.check() : result;
  }

  async *#read(): AsyncGenerator<Event> {
    let failures = 0;
    for (;;) {
      let broken: unknown = "it ended too early";
      const response = await this.#open();
      const reader = response.body?.getReader();
      const decoder = new EventDecoder();
      try {
        for (let chunk = await nextChunk(reader); chunk; chunk = await nextChunk(reader)) {
          for (const raw of decoder.feed(chunk)) {
            if (raw.id !== undefined) {
              this.#readId = raw.id;
              failures = 0;
            }
            const event = eventOf(raw);
            if (!event) continue;
            this.lastEventId = raw.id ?? this.lastEventId;
            if (event.type === "exit") this.exit = event;
            yield event;
            if (this.exit) return;
          }
        }
      } catch (error) {
        this.#signal.throwIfAborted();
        if (error instanceof RingfenceError) throw error;
        broken = error;
      } finally {
        // Whoever leaves early leaves the connection too.
        await reader?.cancel().catch(() => undefined);
      }
      failures += 1;
      const cause = { cause: broken };
      if (!this.#keep || this.#readId === undefined) {
        const next = "use keep: true for one that can be taken up again";
        throw new StreamBroken(`the stream broke off, and its command was ended with it\n  ${next}`, cause);
      }
      if (failures > this.#http.retries) throw new StreamBroken(`the stream broke off ${failures} times\n  see the server's log`, cause);
      await sleep(pauseBefore(failures - 1), undefined, { signal: this.#signal });
    }
  }

  async #open(): Promise<Response> {
    try {
      return await this.#http.open(this.#operation, this.#readId, this.#signal);
    } catch (error) {
      if (error instanceof NotFound && this.#readId !== undefined) {
        const next = "start the command again if it may run twice";
        throw new StreamBroken(`the server no longer has this stream\n  ${next}`, { cause: error });
      }
      throw error;
    }
  }
}
