// What several nouns share: lists that come in pages, and how an action that waited is done.

/** For what a person may have to approve. */
export interface ActionOptions {
  /** The action that was approved for exactly this. */
  action?: string | undefined;
  /** Wait so long for a decision, before it is `WaitingForApproval`. */
  wait_ms?: number | undefined;
}

/** All of a list; a page is its rows, and where the next one begins. */
export async function* paged<T>(
  ask: (after: string | undefined) => Promise<[T[], string | null | undefined]>,
): AsyncGenerator<T> {
  let after: string | undefined;
  do {
    const [rows, next] = await ask(after);
    yield* rows;
    after = next ?? undefined;
  } while (after !== undefined);
}
