// The small nouns: workspaces, secrets, users, keys, audit. One line a verb; what it answers is generated.

import type {
  JsonObject,
  KeyAnswer,
  KeyRequest,
  NewKeyAnswer,
  UserAnswer,
  UserChange,
  VerdictAnswer,
  WorkspaceAnswer,
  WorkspaceUsage,
} from "./generated/models.js";
import * as operations from "./generated/operations.js";
import type { Http } from "./http.js";
import { type ActionOptions, paged } from "./paging.js";

/** Your workspaces, by name. One is made when it is first named in a run or a sandbox. */
export class Workspaces {
  constructor(readonly http: Http) {}

  async *list(): AsyncGenerator<WorkspaceAnswer> {
    yield* paged(async (after) => {
      const page = await this.http.send(operations.workspacesList({ after }));
      return [page.workspaces, page.next];
    });
  }

  get(name: string): Promise<WorkspaceAnswer> {
    return this.http.send(operations.workspacesGet(name));
  }

  usage(name: string): Promise<WorkspaceUsage> {
    return this.http.send(operations.workspacesUsageOf(name));
  }

  delete(name: string, options: ActionOptions = {}): Promise<void> {
    return this.http.send(operations.workspacesDelete(name, options));
  }
}

/** Values that commands use and never see: `secrets: [{ name, hosts }]` of a run or a sandbox names them. */
export class Secrets {
  constructor(readonly http: Http) {}

  set(name: string, value: string, options: ActionOptions = {}): Promise<void> {
    return this.http.send(operations.secretsSet(name, { value, ...options }));
  }

  /** Their names; no value is ever told. */
  async *list(): AsyncGenerator<string> {
    yield* paged(async (after) => {
      const page = await this.http.send(operations.secretsList({ after }));
      return [page.secrets, page.next];
    });
  }

  delete(name: string, options: ActionOptions = {}): Promise<void> {
    return this.http.send(operations.secretsDelete(name, options));
  }
}

/** Who may ask: for admins. */
export class Users {
  constructor(readonly http: Http) {}

  async *list(): AsyncGenerator<UserAnswer> {
    yield* paged(async (after) => {
      const page = await this.http.send(operations.peopleUsers({ after }));
      return [page.users, page.next];
    });
  }

  create(name: string, role: string): Promise<UserAnswer> {
    return this.http.send(operations.peopleAddUser({ name, role }));
  }

  change(name: string, change: UserChange): Promise<UserAnswer> {
    return this.http.send(operations.peopleChangeUser(name, change));
  }

  delete(name: string): Promise<void> {
    return this.http.send(operations.peopleRemoveUser(name));
  }
}

/** API keys: your own, and for admins everybody's. */
export class Keys {
  constructor(readonly http: Http) {}

  async *list(): AsyncGenerator<KeyAnswer> {
    yield* paged(async (after) => {
      const page = await this.http.send(operations.peopleKeys({ after }));
      return [page.keys, page.next];
    });
  }

  /** The key itself is told this once. */
  create(options: KeyRequest = {}): Promise<NewKeyAnswer> {
    return this.http.send(operations.peopleAddKey(options));
  }

  revoke(id: string): Promise<void> {
    return this.http.send(operations.peopleRevokeKey(id));
  }
}

/** What happened: your own rows, and for admins everybody's. */
export class Audit {
  constructor(readonly http: Http) {}

  async *rows(query: { user?: string; kind?: string; since?: number; until?: number } = {}): AsyncGenerator<JsonObject> {
    let after: number | undefined;
    do {
      const page = await this.http.send(operations.auditQuery({ ...query, after }));
      yield* page.rows;
      after = page.next ?? undefined;
    } while (after !== undefined);
  }

  /** All rows as JSON lines. */
  export(): Promise<string> {
    return this.http.send(operations.auditExport());
  }

  verify(): Promise<VerdictAnswer> {
    return this.http.send(operations.auditVerify());
  }
}
