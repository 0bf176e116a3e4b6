// One request to the server, as data: the generated functions make it, the client sends it.

import { AnswerNotUnderstood, AnswerTooLarge } from "./errors.js";

export interface Operation<T> {
  method: string;
  path: string;
  query?: object;
  headers?: object;
  json?: unknown;
  content?: Uint8Array | undefined;
  media?: string;
  answer: "json" | "bytes" | "text" | "events" | "none";
  keyed: boolean;
  /** No more of an answer is taken in than this. */
  most?: number;
  /** Only a type: what it answers. */
  readonly answers?: T;
}

/** A path with its values in place. No value reaches another route than its own. */
export function pathOf(template: string, values: Record<string, string | number>): string {
  return template.replace(/\{([^}]+)\}/g, (_, name: string) => {
    const text = String(values[name]);
    if (text === "" || text === "." || text === "..") {
      throw new RangeError(`${name} can't be ${JSON.stringify(text)}: give the id or name that the server told`);
    }
    return encodeURIComponent(text);
  });
}

/** Whether it may be sent again when nobody knows if the first one arrived. */
export function isRepeatable(operation: Operation<unknown>): boolean {
  return operation.keyed || operation.method !== "POST";
}

/** Milliseconds that the server may hold the answer for a person's decision. */
export function waitsMs(operation: Operation<unknown>): number {
  const asked = { ...operation.query, ...(operation.json as object | undefined) } as { wait_ms?: number | null };
  return asked.wait_ms ?? 0;
}

export function urlOf(base: string, operation: Operation<unknown>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(operation.query ?? {})) {
    if (value !== undefined && value !== null) query.set(name, String(value));
  }
  const text = query.toString();
  return base + operation.path + (text ? `?${text}` : "");
}

async function bytesOf(response: Response, most: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > most) throw new AnswerTooLarge(most);
    chunks.push(chunk);
  }
  return new Uint8Array(Buffer.concat(chunks));
}

/** The typed answer of a response. */
export async function readAnswer<T>(operation: Operation<T>, response: Response): Promise<T> {
  switch (operation.answer) {
    case "none":
      await response.arrayBuffer();
      return undefined as T;
    case "bytes":
      return (await bytesOf(response, operation.most ?? Infinity)) as T;
    case "text":
      return (await response.text()) as T;
    default: {
      const text = await response.text();
      try {
        return JSON.parse(text) as T;
      } catch (error) {
        throw new AnswerNotUnderstood(`${operation.method} ${operation.path}`, error);
      }
    }
  }
}
