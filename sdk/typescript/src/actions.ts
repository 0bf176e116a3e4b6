// What waits for a person, and their decisions.

import type { ActionAnswer, DecideRequest, RememberedAnswer, SubmitRequest } from "./generated/models.js";
import * as operations from "./generated/operations.js";
import type { Http } from "./http.js";
import { type ActionEvent, Events, actionEventOf } from "./listening.js";
import { paged } from "./paging.js";

/** Your own; for approvers and admins everybody's. */
export class Actions {
  constructor(readonly http: Http) {}

  /** Ask for approval without doing it: one of `run`, `create`, `exec`, `delete`. */
  submit(order: SubmitRequest): Promise<ActionAnswer> {
    return this.http.send(operations.actionsSubmit(order));
  }

  async *list(query: { state?: string; user?: string } = {}): AsyncGenerator<ActionAnswer> {
    yield* paged(async (after) => {
      const page = await this.http.send(operations.actionsList({ ...query, after }));
      return [page.actions, page.next];
    });
  }

  get(id: string): Promise<ActionAnswer> {
    return this.http.send(operations.actionsGet(id));
  }

  /** Let its submitter do it. `remember` holds for exactly the same again: once, session, hour or always. */
  approve(id: string, decision: DecideRequest = {}): Promise<ActionAnswer> {
    return this.http.send(operations.actionsApprove(id, decision));
  }

  deny(id: string, decision: DecideRequest = {}): Promise<ActionAnswer> {
    return this.http.send(operations.actionsDeny(id, decision));
  }

  cancel(id: string): Promise<ActionAnswer> {
    return this.http.send(operations.actionsCancel(id));
  }

  /** Approvals that still hold. */
  async *remembered(): AsyncGenerator<RememberedAnswer> {
    yield* paged(async (after) => {
      const page = await this.http.send(operations.actionsRemembered({ after }));
      return [page.remembered, page.next];
    });
  }

  forget(id: string): Promise<void> {
    return this.http.send(operations.actionsForget(id));
  }

  /** What happens to actions, as it happens. `after: 0` begins with the first there is; without it only news are told. */
  events(query: { after?: number } = {}): Promise<Events<ActionEvent>> {
    return Events.open(this.http, operations.actionsEvents(query), actionEventOf, query.after?.toString());
  }
}
