// What a stream tells, and how its bytes are read: Server-Sent Events, split at line ends and nothing else.

import { AnswerNotUnderstood, errorFromDetail } from "./errors.js";
import type { JsonObject } from "./generated/models.js";
import { bytesOf } from "./result.js";

/** The command runs. `id` names its stream. */
export interface StartEvent {
  type: "start";
  id: string;
}

/** Some bytes of the command's output, whole characters where they are UTF-8. */
export interface OutputEvent {
  type: "stdout" | "stderr";
  text: string;
  data: Uint8Array;
}

/** Something was blocked; `facts` has the rule and what would allow it. */
export interface DenialEvent {
  type: "denial";
  facts: JsonObject;
}

/** So many events were dropped before they could be read. */
export interface GapEvent {
  type: "gap";
  events: number;
}

/** The command has ended. */
export interface ExitEvent {
  type: "exit";
  code: number;
  signal: number | null;
  timed_out: boolean;
  duration_ms: number;
  facts: JsonObject;
}

export type Event = StartEvent | OutputEvent | DenialEvent | GapEvent | ExitEvent;

export interface RawEvent {
  id: string | undefined;
  name: string;
  data: string;
}

/** From bytes, cut anywhere, to events. A line ends at LF, CR or CRLF only. */
export class EventDecoder {
  #text = new TextDecoder("utf-8");
  #rest = "";
  #id: string | undefined;
  #name = "";
  #data: string[] = [];

  *feed(chunk: Uint8Array): Generator<RawEvent> {
    const text = this.#rest + this.#text.decode(chunk, { stream: true });
    // A CR at the very end may be half of a CRLF.
    const held = text.endsWith("\r") ? "\r" : "";
    const lines = text.slice(0, text.length - held.length).split(/\r\n|\r|\n/);
    this.#rest = (lines.pop() ?? "") + held;
    for (const line of lines) {
      const event = this.#line(line);
      if (event) yield event;
    }
  }

  #line(line: string): RawEvent | undefined {
    if (line === "") {
      const event =
        this.#data.length > 0 ? { id: this.#id, name: this.#name || "message", data: this.#data.join("\n") } : undefined;
      this.#id = undefined;
      this.#name = "";
      this.#data = [];
      return event;
    }
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    else if (name === "event") this.#name = value;
    else if (name === "id") this.#id = value;
    return undefined;
  }
}

/** The typed event; undefined for one that this SDK does not know yet. An `error` is thrown. */
export function eventOf(raw: RawEvent): Event | undefined {
  let data: any;
  try {
    data = JSON.parse(raw.data);
  } catch (error) {
    throw new AnswerNotUnderstood(`a stream, its event ${raw.name}`, error);
  }
  switch (raw.name) {
    case "start":
      return { type: "start", id: String(data.id) };
    case "stdout":
    case "stderr": {
      const bytes = bytesOf(data.text, data.base64);
      return { type: raw.name, text: data.text ?? Buffer.from(bytes).toString("utf8"), data: bytes };
    }
    case "denial":
      return { type: "denial", facts: data };
    case "gap":
      return { type: "gap", events: Number(data.events) };
    case "exit":
      return {
        type: "exit",
        code: Number(data.code),
        signal: data.signal ?? null,
        timed_out: Boolean(data.timed_out),
        duration_ms: Number(data.duration_ms ?? 0),
        facts: data,
      };
    case "error":
      throw errorFromDetail(0, data.error ?? {});
    default:
      return undefined;
  }
}
