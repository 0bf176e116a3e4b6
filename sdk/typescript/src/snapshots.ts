// Snapshots, by themselves and of one sandbox.

import type { ForkRequest, RollbackAnswer, SnapshotAnswer } from "./generated/models.js";
import * as operations from "./generated/operations.js";
import type { Http } from "./http.js";
import { paged } from "./paging.js";
import { Sandbox } from "./sandbox.js";

/** Yours, by id or name. They outlive their sandboxes. */
export class Snapshots {
  constructor(readonly http: Http) {}

  async *list(query: { sandbox?: string; user?: string } = {}): AsyncGenerator<SnapshotAnswer> {
    yield* paged(async (after) => {
      const page = await this.http.send(operations.snapshotsList({ ...query, after }));
      return [page.snapshots, page.next];
    });
  }

  get(snapshot: string): Promise<SnapshotAnswer> {
    return this.http.send(operations.snapshotsGet(snapshot));
  }

  delete(snapshot: string): Promise<void> {
    return this.http.send(operations.snapshotsDelete(snapshot));
  }

  /** New sandboxes that begin there: `count` of them, one where none is given. */
  async fork(snapshot: string, options: ForkRequest = {}): Promise<Sandbox[]> {
    const answer = await this.http.send(operations.snapshotsForkSnapshot(snapshot, options));
    return answer.sandboxes.map((one) => new Sandbox(this.http, one.id, one));
  }

  /** As a tar, for `import` of another server. */
  export(snapshot: string): Promise<Uint8Array> {
    return this.http.send(operations.snapshotsExport(snapshot));
  }

  /** Take in what `export` gave, as one of your own. */
  import(tar: Uint8Array): Promise<SnapshotAnswer> {
    return this.http.send(operations.snapshotsImport(tar));
  }
}

/** Snapshots of one sandbox. */
export class SandboxSnapshots {
  constructor(
    readonly http: Http,
    readonly sandboxId: string,
  ) {}

  take(name?: string): Promise<SnapshotAnswer> {
    return this.http.send(operations.snapshotsTake(this.sandboxId, { name: name ?? null }));
  }

  list(): AsyncGenerator<SnapshotAnswer> {
    return new Snapshots(this.http).list({ sandbox: this.sandboxId });
  }

  /** Bring the files back to what they were. Commands go on running. */
  rollback(snapshot: string): Promise<RollbackAnswer> {
    return this.http.send(operations.snapshotsRollback(this.sandboxId, { snapshot }));
  }
}
