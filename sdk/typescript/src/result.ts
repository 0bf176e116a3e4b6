// What came of a command, under one name for one-shot runs, sandboxes and streams.

import { CommandFailed } from "./errors.js";
import type { ExecAnswer, JsonObject, RunAnswer } from "./generated/models.js";

/** A string is for the shell inside; an array is the program and its arguments. */
export type Command = string | readonly string[];

export function argv(command: Command): string[] {
  return typeof command === "string" ? ["sh", "-c", command] : [...command];
}

export interface ResultParts {
  exit_code: number;
  stdout_bytes: Uint8Array;
  stderr_bytes: Uint8Array;
  signal: number | null;
  timed_out: boolean;
  truncated: boolean;
  duration_ms: number;
  denials: JsonObject[];
  facts: object;
}

/** What a command left. Its fields have the names of the wire. */
export class CommandResult {
  readonly exit_code: number;
  readonly stdout_bytes: Uint8Array;
  readonly stderr_bytes: Uint8Array;
  readonly signal: number | null;
  readonly timed_out: boolean;
  /** There was more output than is kept. */
  readonly truncated: boolean;
  readonly duration_ms: number;
  /** What was blocked, by which rule, and what would allow it. */
  readonly denials: JsonObject[];
  /** All that the server told. */
  readonly facts: object;

  constructor(parts: ResultParts) {
    this.exit_code = parts.exit_code;
    this.stdout_bytes = parts.stdout_bytes;
    this.stderr_bytes = parts.stderr_bytes;
    this.signal = parts.signal;
    this.timed_out = parts.timed_out;
    this.truncated = parts.truncated;
    this.duration_ms = parts.duration_ms;
    this.denials = parts.denials;
    this.facts = parts.facts;
  }

  /** With replacement characters where it is not UTF-8; the bytes are exact. */
  get stdout(): string {
    return Buffer.from(this.stdout_bytes).toString("utf8");
  }

  get stderr(): string {
    return Buffer.from(this.stderr_bytes).toString("utf8");
  }

  get ok(): boolean {
    return this.exit_code === 0;
  }

  /** Itself, or `CommandFailed`. */
  check(): this {
    if (!this.ok) throw new CommandFailed(this);
    return this;
  }

  /** All of it as one text, as a model's tool would answer: output, errors, status, and what was blocked. */
  forModel(): string {
    const parts = [this.stdout, this.stderr];
    if (this.truncated) parts.push("[there was more output than is kept]");
    if (this.timed_out) parts.push("[the command ran out of time]");
    else if (!this.ok) parts.push(`[exit status ${this.exit_code}]`);
    for (const denial of this.denials) parts.push(`[denied: ${denial["remedy"] ?? denial["what"]}]`);
    return parts
      .filter((part) => part !== "")
      .map((part) => part.replace(/\n+$/, ""))
      .join("\n");
  }
}

export function resultOf(answer: RunAnswer | ExecAnswer): CommandResult {
  const denials = "denials" in answer ? answer.denials : ((answer.result["denials"] ?? []) as JsonObject[]);
  return new CommandResult({
    exit_code: answer.exit_code,
    stdout_bytes: bytesOf(answer.stdout, answer.stdout_base64),
    stderr_bytes: bytesOf(answer.stderr, answer.stderr_base64),
    signal: answer.signal ?? null,
    timed_out: answer.timed_out,
    truncated: answer.truncated ?? false,
    duration_ms: answer.duration_ms,
    denials,
    facts: answer,
  });
}

/** Text, or what is not text in base64. */
export function bytesOf(text: string | null | undefined, coded: string | null | undefined): Uint8Array {
  return new Uint8Array(typeof coded === "string" ? Buffer.from(coded, "base64") : Buffer.from(text ?? "", "utf8"));
}
