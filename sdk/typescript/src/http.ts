// Sending: one operation, as often as it takes and may be.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import {
  ApiError,
  ConnectionFailed,
  NoKey,
  NotFound,
  RequestTimeout,
  RingfenceError,
  SandboxEnded,
  StillRunning,
  TooMany,
  errorOf,
  waitingOf,
} from "./errors.js";
import { type Operation, isRepeatable, readAnswer, urlOf, waitsMs } from "./operation.js";

const DEFAULT_URL = "http://127.0.0.1:7070";
/** What the server gives a command where nobody says how long. */
const COMMAND_MS = 30_000;
/** For all that is not the command itself: waiting for a place, making a sandbox, sending the answer. */
const MARGIN_MS = 60_000;
/** A stream says something at least every 15 seconds. */
const SILENCE_MS = 60_000;
const LONGEST_WAIT_MS = 30_000;
/** Nothing was sent: it may be tried again, whatever it is. */
const NOT_CONNECTED = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
]);

export interface ClientOptions {
  /** Of the server; RINGFENCE_URL where it is not given, else http://127.0.0.1:7070. */
  url?: string;
  /** RINGFENCE_API_KEY where it is not given. */
  key?: string;
  /** Milliseconds for everything but commands, which have their own. */
  timeout_ms?: number;
  /** How often what may be sent twice is sent again. */
  retries?: number;
}

/** Asks one server with one key. Retries what may be sent twice, POSTs by their idempotency keys. */
export class Http {
  readonly url: string;
  readonly timeoutMs: number;
  readonly retries: number;
  readonly #key: string;

  constructor(options: ClientOptions = {}) {
    this.#key = (options.key || process.env["RINGFENCE_API_KEY"] || "").trim();
    if (!this.#key) throw new NoKey();
    // Sent all the same it would be shown in the error of whoever refuses it.
    if (!/^[!-~]+$/.test(this.#key)) throw new RangeError("the API key has characters that no key has: see where it comes from");
    const url = options.url || process.env["RINGFENCE_URL"] || DEFAULT_URL;
    if (!/^https?:\/\//.test(url)) throw new RangeError(`${url} is no URL of a server: give http://… or https://…`);
    this.url = url.replace(/\/+$/, "");
    this.timeoutMs = options.timeout_ms ?? 60_000;
    this.retries = options.retries ?? 4;
  }

  /** Ask, and give the answer. `timeoutMs` is for all attempts together, and a decision's `wait_ms` is added; null waits for ever. */
  async send<T>(operation: Operation<T>, timeoutMs: number | null = this.timeoutMs, signal?: AbortSignal): Promise<T> {
    const key = operation.keyed ? randomUUID() : undefined;
    const until = timeoutMs === null ? undefined : performance.now() + timeoutMs + waitsMs(operation);
    let attempt = 0;
    let wasLost = false;
    for (;;) {
      let error: unknown;
      try {
        return await this.#once(operation, key, until, signal);
      } catch (thrown) {
        error = thrown;
      }
      signal?.throwIfAborted();
      if (wasLost && operation.method === "DELETE" && (error instanceof NotFound || error instanceof SandboxEnded)) {
        // The first one arrived after all.
        return undefined as T;
      }
      if (error instanceof Lost) {
        wasLost = true;
        const told = error.told(this.url, operation);
        if (!error.nothingSent && !isRepeatable(operation)) throw told;
        error = told;
      } else if (!(error instanceof ApiError) || !worthRepeating(error, isRepeatable(operation))) {
        throw error;
      }
      if (!(error instanceof StillRunning)) attempt += 1;
      const wait = pauseBefore(attempt, error);
      if (attempt > this.retries || (until !== undefined && performance.now() + wait > until)) throw error;
      await sleep(wait, undefined, { signal });
    }
  }

  /** The response of a stream, its body still to come. */
  async open(operation: Operation<never>, lastEventId: string | undefined, signal: AbortSignal): Promise<Response> {
    for (let attempt = 1; ; attempt += 1) {
      let error: unknown;
      try {
        const more: Record<string, string> = { Accept: "text/event-stream" };
        if (lastEventId !== undefined) more["Last-Event-ID"] = lastEventId;
        return await this.#fetch(operation, more, signal);
      } catch (thrown) {
        error = thrown;
      }
      signal.throwIfAborted();
      if (error instanceof Lost) {
        const told = error.told(this.url, operation);
        // Nobody knows whether the command was started.
        if (!error.nothingSent && lastEventId === undefined) throw told;
        error = told;
      } else if (!(error instanceof ApiError) || !worthRepeating(error, lastEventId !== undefined)) {
        throw error;
      }
      if (attempt > this.retries) throw error;
      await sleep(pauseBefore(attempt, error), undefined, { signal });
    }
  }

  async #once<T>(
    operation: Operation<T>,
    key: string | undefined,
    until: number | undefined,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    const signals = signal ? [signal] : [];
    const left = until === undefined ? undefined : AbortSignal.timeout(Math.max(1, Math.ceil(until - performance.now())));
    if (left) signals.push(left);
    try {
      const response = await this.#fetch(operation, key ? { "Idempotency-Key": key } : {}, AbortSignal.any(signals));
      return await readAnswer(operation, response);
    } catch (error) {
      if (left?.aborted && !signal?.aborted) {
        throw new RequestTimeout(`${operation.method} ${operation.path} was not answered in time`, { cause: error });
      }
      throw error instanceof RingfenceError || error instanceof Lost ? error : new Lost(error);
    }
  }

  /** A response that is good; everything else is thrown. */
  async #fetch(operation: Operation<unknown>, more: Record<string, string>, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { ...more, Authorization: `Bearer ${this.#key}`, "User-Agent": "ringfence-typescript" };
    for (const [name, value] of Object.entries(operation.headers ?? {})) {
      if (value !== undefined && value !== null) headers[name] = String(value);
    }
    const body = operation.json === undefined ? operation.content : JSON.stringify(operation.json);
    if (body !== undefined) headers["Content-Type"] = operation.media ?? "application/json";
    let response: Response;
    let text: string;
    try {
      const asked = { method: operation.method, headers, body: body ?? null, signal, redirect: "manual" as const };
      response = await fetch(urlOf(this.url, operation), asked);
      if (response.ok && response.status !== 202) return response;
      text = await response.text();
    } catch (error) {
      throw new Lost(error);
    }
    if (response.status === 202) throw waitingOf(text);
    throw errorOf(response.status, text, response.headers.get("retry-after"));
  }
}

/** A connection that was not made, or broke. */
class Lost extends Error {
  constructor(cause: unknown) {
    super("", { cause });
  }

  get nothingSent(): boolean {
    return NOT_CONNECTED.has(codeOf(this.cause));
  }

  told(url: string, operation: Operation<unknown>): ConnectionFailed {
    const why = this.cause instanceof Error ? (this.cause.cause ?? this.cause) : this.cause;
    const what = this.nothingSent
      ? `cannot reach ${url}: ${why}\n  is \`ringfence serve\` running?`
      : `${operation.method} ${operation.path}: the connection broke off: ${why}`;
    return new ConnectionFailed(what, { cause: this.cause });
  }
}

function codeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  if (cause instanceof AggregateError) return codeOf(cause.errors[0]);
  return typeof cause === "object" && cause !== null && "code" in cause ? String(cause.code) : "";
}

/** The next bytes of a stream; an error where the server says nothing, not even that it is there. */
export async function nextChunk(reader: ReadableStreamDefaultReader<Uint8Array> | undefined): Promise<Uint8Array | undefined> {
  if (!reader) return undefined;
  let timer: NodeJS.Timeout | undefined;
  const silence = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error("the server was silent")), SILENCE_MS);
  });
  try {
    return (await Promise.race([reader.read(), silence])).value;
  } finally {
    clearTimeout(timer);
  }
}

/** How long the answer to a command may take; null where its policy decides. */
export function commandMs(timeoutMs: number | null | undefined, policy: unknown): number | null {
  if (typeof timeoutMs === "number") return timeoutMs + MARGIN_MS;
  return policy ? null : COMMAND_MS + MARGIN_MS;
}

/** Milliseconds to wait before the next attempt; what the server asks for, within reason. */
export function pauseBefore(attempt: number, error?: unknown): number {
  if (error instanceof ApiError && error.retryAfter !== undefined) return Math.min(error.retryAfter * 1000, LONGEST_WAIT_MS);
  return Math.min(100 * 2 ** attempt, 5000) * (0.5 + Math.random() / 2);
}

/** Whether the same request may be answered otherwise later. */
function worthRepeating(error: ApiError, repeatable: boolean): boolean {
  if (error instanceof StillRunning) return true;
  // Nothing was done; a quota is for the caller to look at.
  if (error instanceof TooMany) return error.code === "too_many";
  return repeatable && [502, 503, 504].includes(error.status);
}
