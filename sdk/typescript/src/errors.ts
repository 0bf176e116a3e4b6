// What can go wrong, one class a reason. Every error of the server has its stable `code`; the classes follow the codes.

import type { ActionAnswer, ErrorDetail } from "./generated/models.js";
import type { CommandResult } from "./result.js";

/** The base of all errors here. */
export class RingfenceError extends Error {
  override name = this.constructor.name;
}

/** There is no API key to ask with. */
export class NoKey extends RingfenceError {
  constructor() {
    super(
      "no API key is given\n  make one with `ringfence key create --user NAME`, and set RINGFENCE_API_KEY or pass { key }",
    );
  }
}

/** The server can't be reached, or the connection broke off. */
export class ConnectionFailed extends RingfenceError {}

/** There was no answer in time. A command with a timeout of its own ends by that. */
export class RequestTimeout extends RingfenceError {}

/** A stream broke off and can't be taken up again. */
export class StreamBroken extends ConnectionFailed {}

/** The server answered something else than its API says. */
export class AnswerNotUnderstood extends RingfenceError {
  constructor(asked: string, cause: unknown) {
    super(`the answer to ${asked} was not understood: ${cause}\n  see whether URL and versions of server and SDK are right`, {
      cause,
    });
  }
}

/** A tree is larger than is taken in at once. */
export class AnswerTooLarge extends RingfenceError {
  constructor(most: number) {
    super(`the answer is larger than ${most >>> 20} MiB\n  ask for a part of it`);
  }
}

/** A command of `run(…, { check: true })` did not end with 0. */
export class CommandFailed extends RingfenceError {
  constructor(readonly result: CommandResult) {
    const why = result.timed_out ? "ran out of time" : `ended with ${result.exit_code}`;
    const tail = result.stderr.trim().slice(-2000);
    super(`the command ${why}${tail ? `: ${tail}` : ""}`);
  }
}

/**
 * Nothing was done yet: a person must approve first. `action` is what the server says of it. Once it is approved, the same
 * call with `action: error.action.id` does it. `wait_ms` waits for the decision instead.
 */
export class WaitingForApproval extends RingfenceError {
  constructor(readonly action: ActionAnswer) {
    super(
      `${action.summary}: this is ${action.level}, and action ${action.id} waits for approval\n` +
        `  once it is approved, do the same again with action: "${action.id}"`,
    );
  }
}

/** An error that the server told. `code` is stable; `hint` says what to do next. */
export class ApiError extends RingfenceError {
  readonly code: string;
  readonly hint: string;
  readonly requestId: string;
  constructor(
    readonly status: number,
    /** All that the server told of it; for a commit that conflicts, `paths`. */
    readonly detail: Partial<ErrorDetail>,
    /** Seconds to wait, where waiting helps. */
    readonly retryAfter?: number,
  ) {
    super((detail.message ?? "") + (detail.hint ? `\n  ${detail.hint}` : ""));
    this.code = detail.code ?? "";
    this.hint = detail.hint ?? "";
    this.requestId = detail.request_id ?? "";
  }
}

/** The request is wrong as it is. */
export class BadRequest extends ApiError {}
/** The key is missing, wrong, expired or revoked. */
export class AuthenticationFailed extends ApiError {}
/** Your role may not do this. */
export class Forbidden extends ApiError {}
/** A sandbox may not have this in your role. */
export class BeyondCeiling extends Forbidden {}
/** The sandbox's own policy keeps this file closed. */
export class FileDenied extends Forbidden {}
/** There is no such thing, or it is somebody else's. */
export class NotFound extends ApiError {}
/** There is no such file in the sandbox. */
export class NoSuchFile extends NotFound {}
/** Something else is in the way. */
export class Conflict extends ApiError {}
/** There is such a file already. */
export class FileExists extends Conflict {}
/** Another one has this name. */
export class NameTaken extends Conflict {}
/** The same request, by its key, is being carried out. */
export class StillRunning extends Conflict {}
/** The sandbox has ended. */
export class SandboxEnded extends ApiError {}
/** The server's host can't enforce what was asked for; nothing ran. */
export class NotEnforceable extends ApiError {}
/** Too much at a time; `retryAfter` says for how many seconds to wait. */
export class TooMany extends ApiError {}
/** Your quota is used up; end something first. */
export class QuotaReached extends TooMany {}
/** The server could not do its part. */
export class ServerFailed extends ApiError {}

type ApiErrorClass = new (status: number, detail: Partial<ErrorDetail>, retryAfter?: number) => ApiError;

const BY_CODE: Record<string, ApiErrorClass> = {
  beyond_ceiling: BeyondCeiling,
  file_denied: FileDenied,
  no_such_file: NoSuchFile,
  file_exists: FileExists,
  taken: NameTaken,
  still_running: StillRunning,
  session_ended: SandboxEnded,
  no_session: SandboxEnded,
  not_enforceable: NotEnforceable,
  quota: QuotaReached,
};
const BY_STATUS: Record<number, ApiErrorClass> = {
  401: AuthenticationFailed,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  410: SandboxEnded,
  429: TooMany,
};

export function errorFromDetail(status: number, detail: Partial<ErrorDetail>, retryAfter?: number): ApiError {
  const known = Object.hasOwn(BY_CODE, detail.code ?? "") ? BY_CODE[detail.code ?? ""] : BY_STATUS[status];
  const general = status >= 500 || status === 0 ? ServerFailed : BadRequest;
  return new (known ?? general)(status, detail, retryAfter);
}

/** What a response says of an action that waits. */
export function waitingOf(body: string): RingfenceError {
  try {
    const action: ActionAnswer = JSON.parse(body);
    if (typeof action.id !== "string") throw new TypeError("it has no id");
    return new WaitingForApproval(action);
  } catch (error) {
    return new AnswerNotUnderstood("a request that waits for approval", error);
  }
}

/** The error that a response tells; a proxy's page is one too. */
export function errorOf(status: number, body: string, retryAfter: string | null): ApiError {
  const wait = retryAfter && /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined;
  try {
    const detail: unknown = JSON.parse(body).error;
    if (typeof detail === "object" && detail !== null) return errorFromDetail(status, detail, wait);
  } catch {
    // Not the server's own words.
  }
  const text = body.slice(0, 200).trim();
  return errorFromDetail(status, { message: `the server answered ${status}${text ? `: ${text}` : ""}` }, wait);
}
