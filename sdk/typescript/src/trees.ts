// Directories of this machine that somebody else may have written, and tars from a sandbox, which somebody else surely has.
// No link is followed and none is made, and there is an end to it.

import { constants } from "node:fs";
import { mkdir, open, readdir } from "node:fs/promises";
import path from "node:path";

import { AnswerNotUnderstood } from "./errors.js";

export const MOST_FILES = 10_000;
export const MOST_BYTES = 256 << 20;
const BLOCK = 512;
/** A name that is longer is none of a file. */
const LONGEST_NAME = 64 << 10;

/** The regular files beneath a directory, as the server takes them. Links, devices and the like are left out. */
export async function tarOf(root: string): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let count = 0;
  let size = 0;
  // A directory that is swapped for a link meanwhile is noticed: each one is opened, and read by what was opened.
  const walk = async (directory: string, prefix: string): Promise<void> => {
    const held = await open(directory, constants.O_RDONLY | constants.O_DIRECTORY | (prefix ? constants.O_NOFOLLOW : 0));
    try {
      const base = process.platform === "linux" ? `/proc/self/fd/${held.fd}` : directory;
      const entries = await readdir(base, { withFileTypes: true });
      for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
        if (entry.isDirectory()) await walk(path.join(base, entry.name), `${prefix}${entry.name}/`);
        if (!entry.isFile()) continue;
        const found = await regular(path.join(base, entry.name), MOST_BYTES - size);
        if (!found) continue;
        size += found.content.length;
        if (++count > MOST_FILES || size > MOST_BYTES) {
          throw new RangeError(`${root} is too large: at most ${MOST_FILES} files and ${MOST_BYTES >> 20} MiB are copied`);
        }
        parts.push(...member(prefix + entry.name, found.content, found.executable ? 0o755 : 0o644));
      }
    } finally {
      await held.close();
    }
  };
  await walk(root, "");
  return new Uint8Array(Buffer.concat([...parts, new Uint8Array(2 * BLOCK)]));
}

/** One regular file. Not even a pipe in its place is waited for. */
async function regular(file: string, most: number): Promise<{ content: Uint8Array; executable: boolean } | undefined> {
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  const held = await open(file, flags);
  try {
    const facts = await held.stat();
    if (!facts.isFile()) return undefined;
    if (facts.size > most) throw new RangeError(`${path.basename(file)} is too large: at most ${MOST_BYTES >> 20} MiB are copied`);
    // No more than one byte too many, also of a file that grows.
    const chunks: Buffer[] = [];
    for await (const chunk of held.createReadStream({ end: most, autoClose: false })) chunks.push(chunk);
    return { content: new Uint8Array(Buffer.concat(chunks)), executable: (facts.mode & 0o111) !== 0 };
  } finally {
    await held.close();
  }
}

function member(name: string, content: Uint8Array, mode: number): Uint8Array[] {
  const bytes = Buffer.from(name, "utf8");
  const whole = Buffer.concat([bytes, Buffer.alloc(1)]);
  const long = bytes.length > 100 ? [header(Buffer.from("././@LongLink"), whole.length, 0o644, "L"), ...padded(whole)] : [];
  return [...long, header(bytes.subarray(0, 100), content.length, mode, "0"), ...padded(content)];
}

function padded(content: Uint8Array): Uint8Array[] {
  return [content, new Uint8Array((BLOCK - (content.length % BLOCK)) % BLOCK)];
}

function header(name: Uint8Array, size: number, mode: number, kind: string): Uint8Array {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, "0") + "\0";
  block.set(name, 0);
  block.write(octal(mode, 7), 100);
  block.write(octal(0, 7) + octal(0, 7) + octal(size, 11) + octal(0, 11), 108);
  block.write("        " + kind, 148);
  block.write("ustar  \0", 257);
  block.write(octal(block.reduce((sum, byte) => sum + byte, 0), 6) + " ", 148);
  return block;
}

/**
 * Write the files and directories of a tar to a directory that is new or empty; how many files. All else is left out. Since
 * nothing is there before and no link is made, no name in it leads anywhere else.
 */
export async function unpack(tar: Uint8Array, target: string): Promise<number> {
  await mkdir(target, { recursive: true });
  if ((await readdir(target)).length > 0) {
    throw new RangeError(`${target} is not empty: give a directory that is, or a new one`);
  }
  let count = 0;
  let entries = 0;
  for (const one of members(tar)) {
    if (++entries > MOST_FILES) throw new RangeError(`the tree has more than ${MOST_FILES} entries: ask for a part of it`);
    const parts = inside(one.name);
    if (one.kind === "directory") await mkdir(path.join(target, ...parts), { recursive: true });
    if (one.kind !== "file") continue;
    await mkdir(path.join(target, ...parts.slice(0, -1)), { recursive: true });
    const held = await open(path.join(target, ...parts), "wx", one.executable ? 0o755 : 0o644);
    try {
      await held.writeFile(one.content);
    } finally {
      await held.close();
    }
    count += 1;
  }
  return count;
}

interface Member {
  name: string;
  kind: "file" | "directory" | "other";
  executable: boolean;
  content: Uint8Array;
}

function* members(tar: Uint8Array): Generator<Member> {
  const data = Buffer.from(tar.buffer, tar.byteOffset, tar.byteLength);
  let said: { path?: string; size?: number } = {};
  for (let at = 0; at + BLOCK <= data.length; ) {
    const block = data.subarray(at, at + BLOCK);
    if (block.every((byte) => byte === 0)) return;
    const sum = block.reduce((total, byte, index) => total + (index >= 148 && index < 156 ? 32 : byte), 0);
    if (sum !== number(block, 148, 8)) throw new AnswerNotUnderstood("a tree", "a header is damaged");
    const kind = String.fromCharCode(block[156] ?? 0);
    const size = (kind === "L" || kind === "x" || kind === "K" ? undefined : said.size) ?? number(block, 124, 12);
    const content = data.subarray(at + BLOCK, at + BLOCK + size);
    if (content.length !== size) throw new AnswerNotUnderstood("a tree", "it breaks off");
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
    if ((kind === "L" || kind === "x") && size > LONGEST_NAME) throw new AnswerNotUnderstood("a tree", "a name is too long");
    if (kind === "L") said.path = text(content);
    else if (kind === "x") said = { ...said, ...extended(content) };
    if (kind === "L" || kind === "x" || kind === "K" || kind === "g") continue;
    const prefix = block.subarray(257, 263).toString("latin1") === "ustar\0" ? text(block.subarray(345, 500)) : "";
    const plain = (prefix ? `${prefix}/` : "") + text(block.subarray(0, 100));
    yield {
      name: said.path ?? plain,
      kind: kind === "0" || kind === "\0" ? "file" : kind === "5" ? "directory" : "other",
      executable: (number(block, 100, 8) & 0o100) !== 0,
      content,
    };
    said = {};
  }
  throw new AnswerNotUnderstood("a tree", "it breaks off");
}

/** Records of `length key=value`. */
function extended(content: Buffer): { path?: string; size?: number } {
  const said: { path?: string; size?: number } = {};
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(32, at);
    const length = Number(content.subarray(at, space).toString("latin1"));
    if (space < 0 || !Number.isInteger(length) || length <= space - at) throw new AnswerNotUnderstood("a tree", "a record is damaged");
    const record = content.subarray(space + 1, at + length - 1).toString("utf8");
    const key = record.slice(0, record.indexOf("="));
    const value = record.slice(key.length + 1);
    if (key === "path") said.path = value;
    if (key === "size") {
      said.size = Number(value);
      if (!Number.isSafeInteger(said.size) || said.size < 0) throw new AnswerNotUnderstood("a tree", "a record is damaged");
    }
    at += length;
  }
  return said;
}

function number(block: Buffer, start: number, length: number): number {
  const digits = block.subarray(start, start + length).toString("latin1").replace(/[\0 ]+$/, "").trim();
  if (!/^[0-7]*$/.test(digits)) throw new AnswerNotUnderstood("a tree", "a number is damaged");
  return Number.parseInt(digits || "0", 8);
}

function text(field: Buffer): string {
  const end = field.indexOf(0);
  return field.subarray(0, end < 0 ? field.length : end).toString("utf8");
}

/** The parts of a path that stays below. */
function inside(name: string): string[] {
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (name.startsWith("/") || parts.some((part) => part === ".." || part.includes(path.sep) || part.includes("\0"))) {
    throw new AnswerNotUnderstood("a tree", `${JSON.stringify(name)} leads out of it`);
  }
  return parts;
}
