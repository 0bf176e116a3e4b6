// Files of a sandbox. Paths are those inside; one that is not absolute is in the workspace.

import type { EntryAnswer, StatAnswer, UploadAnswer } from "./generated/models.js";
import * as operations from "./generated/operations.js";
import type { Http } from "./http.js";
import { Events, type FileChange, fileChangeOf } from "./listening.js";
import { type ActionOptions, paged } from "./paging.js";
import { MOST_BYTES, tarOf, unpack } from "./trees.js";

export class Files {
  constructor(
    readonly http: Http,
    readonly sandboxId: string,
  ) {}

  read(path: string): Promise<Uint8Array> {
    return this.http.send(operations.filesRead(this.sandboxId, { path }));
  }

  async readText(path: string): Promise<string> {
    return new TextDecoder("utf-8", { fatal: true }).decode(await this.read(path));
  }

  /** Write a file whole. `mode` is its permission bits, as in 0o755. */
  write(path: string, content: string | Uint8Array, options: { mode?: number } & ActionOptions = {}): Promise<void> {
    const data = typeof content === "string" ? new TextEncoder().encode(content) : content;
    const query = { ...options, path, mode: options.mode?.toString(8) };
    return this.http.send(operations.filesWrite(this.sandboxId, data, query));
  }

  async *list(path = "."): AsyncGenerator<EntryAnswer> {
    yield* paged(async (after) => {
      const page = await this.http.send(operations.filesList(this.sandboxId, { path, after }));
      return [page.entries, page.next];
    });
  }

  stat(path: string): Promise<StatAnswer> {
    return this.http.send(operations.filesStat(this.sandboxId, { path }));
  }

  makeDirectory(path: string, options: { parents?: boolean } = {}): Promise<void> {
    return this.http.send(operations.filesMakeDirectory(this.sandboxId, { path, ...options }));
  }

  move(from: string, to: string, options: { replace?: boolean } & ActionOptions = {}): Promise<void> {
    return this.http.send(operations.filesRename(this.sandboxId, { from, to, ...options }));
  }

  /** Copy a directory of this machine to `target`. Links are not followed: what they lead to stays here. */
  async upload(source: string, target: string): Promise<UploadAnswer> {
    return await this.uploadTree(target, await tarOf(source));
  }

  /** Copy a directory to one of this machine that is new or empty; how many files. Links are left out. */
  async download(source: string, target: string): Promise<number> {
    return await unpack(await this.downloadTree(source), target);
  }

  /** Write the files and directories of a tar below a directory, which is made where it isn't there. */
  uploadTree(path: string, tar: Uint8Array): Promise<UploadAnswer> {
    return this.http.send(operations.filesUpload(this.sandboxId, tar, { path }));
  }

  /** A directory as a tar. A command inside may have written anything to it: `download` unpacks it safely. */
  downloadTree(path = ".", options: { most_bytes?: number } = {}): Promise<Uint8Array> {
    const operation = operations.filesDownload(this.sandboxId, { path });
    return this.http.send({ ...operation, most: options.most_bytes ?? MOST_BYTES });
  }

  /** Changes below a path as they happen, until the sandbox ends or the path is gone. It listens once this is awaited. */
  watch(path = ".", options: { recursive?: boolean } = {}): Promise<Events<FileChange>> {
    return Events.open(this.http, operations.filesWatch(this.sandboxId, { path, ...options }), fileChangeOf);
  }

  remove(path: string, options: { recursive?: boolean } & ActionOptions = {}): Promise<void> {
    return this.http.send(operations.filesRemove(this.sandboxId, { path, ...options }));
  }
}
