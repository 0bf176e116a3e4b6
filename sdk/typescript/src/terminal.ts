// A command on a terminal of its own, over a WebSocket: the runtime's own, which Node has from version 22 on.

import { AnswerNotUnderstood, ConnectionFailed, RingfenceError, StreamBroken, errorFromDetail, waitingOf } from "./errors.js";
import type { JsonObject } from "./generated/models.js";
import * as operations from "./generated/operations.js";
import type { Http } from "./http.js";
import type { ActionOptions } from "./paging.js";

export interface TerminalOptions extends ActionOptions {
  rows?: number;
  columns?: number;
  cwd?: string;
  env?: Record<string, string>;
  timeout_ms?: number;
}

/** As much of the standard's `WebSocket` as is used here. */
interface Socket {
  binaryType: string;
  onopen: (() => void) | null;
  onmessage: ((event: { data: unknown }) => void) | null;
  onclose: (() => void) | null;
  onerror: (() => void) | null;
  send(data: string | Uint8Array): void;
  close(): void;
}

type Received = string | Uint8Array;

/** Iterate over it, once, for what is shown. The command ends when it is closed, or the loop is left. */
export class Terminal implements AsyncIterable<Uint8Array>, AsyncDisposable {
  /** How the command ended, once it has. */
  exit: JsonObject | undefined;

  readonly #socket: Socket;
  readonly #received: Received[] = [];
  readonly #shown: AsyncGenerator<Uint8Array>;
  #wake: () => void = () => undefined;
  #closed = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    this.#shown = this.#read();
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      this.#received.push(typeof data === "string" ? data : new Uint8Array(data as ArrayBuffer));
      this.#wake();
    };
    socket.onclose = () => {
      this.#closed = true;
      this.#wake();
    };
  }

  static async open(http: Http, sandboxId: string, command: string[], options: TerminalOptions): Promise<Terminal> {
    const WebSocket = (globalThis as { WebSocket?: new (url: string) => Socket }).WebSocket;
    if (!WebSocket) throw new RingfenceError("this runtime has no WebSocket\n  use Node 22 or later, or node --experimental-websocket");
    // A key can't be sent with it: a ticket is good once, for this terminal.
    const { ticket } = await http.send(operations.sandboxesTicket(sandboxId));
    const path = `/v1/sandboxes/${encodeURIComponent(sandboxId)}/terminal?ticket=${encodeURIComponent(ticket)}`;
    const socket = new WebSocket(http.url.replace(/^http/, "ws") + path);
    const terminal = new Terminal(socket);
    try {
      await new Promise<void>((resolve, reject) => {
        socket.onopen = () => resolve();
        socket.onerror = () => reject(new ConnectionFailed(`cannot open a terminal at ${http.url}\n  see the server's log`));
      });
      socket.onerror = null;
      socket.send(JSON.stringify({ ...options, command }));
      terminal.#told(await terminal.#next());
    } catch (error) {
      socket.close();
      throw error;
    }
    return terminal;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    return this.#shown;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async close(): Promise<void> {
    this.#socket.close();
    this.#closed = true;
    this.#wake();
    await this.#shown.return(undefined).catch(() => undefined);
  }

  /** Type something: a line ends with `\n`, Ctrl-C is `\x03`. */
  write(typed: string | Uint8Array): void {
    this.#send(typeof typed === "string" ? new TextEncoder().encode(typed) : typed);
  }

  resize(rows: number, columns: number): void {
    this.#send(JSON.stringify({ resize: { rows, columns } }));
  }

  signal(signal: number): void {
    this.#send(JSON.stringify({ signal }));
  }

  #send(message: string | Uint8Array): void {
    if (this.#closed) throw new StreamBroken("the terminal is closed\n  open another one");
    this.#socket.send(message);
  }

  /** All that came is given before it is said that the connection is closed. */
  async #next(): Promise<Received> {
    for (;;) {
      const message = this.#received.shift();
      if (message !== undefined) return message;
      if (this.#closed) throw new StreamBroken("the connection broke off, and the command was ended with it\n  open another terminal");
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async *#read(): AsyncGenerator<Uint8Array> {
    try {
      while (!this.exit) {
        const message = await this.#next();
        if (typeof message === "string") this.#told(message);
        else yield message;
      }
    } finally {
      this.#socket.close();
    }
  }

  #told(message: Received): void {
    let told: { exit?: JsonObject; waiting?: JsonObject; error?: JsonObject };
    try {
      told = JSON.parse(String(message)) ?? {};
    } catch (error) {
      throw new AnswerNotUnderstood("a terminal", error);
    }
    if (told.exit) this.exit = told.exit;
    if (told.waiting) throw waitingOf(JSON.stringify(told.waiting));
    if (told.error) throw errorFromDetail(0, told.error);
  }
}
