// Skills of the server: found, read, looked over, published and run.

import type {
  JsonObject,
  SearchAnswer,
  SkillAnswer,
  SkillRunRequest,
  UploadedAnswer,
  VersionsAnswer,
} from "./generated/models.js";
import * as operations from "./generated/operations.js";
import { type Http, commandMs } from "./http.js";
import { type ActionOptions, paged } from "./paging.js";
import { type CommandResult, resultOf } from "./result.js";

export interface UploadOptions extends ActionOptions {
  name?: string;
  /** Make it a new version of one that is there. */
  replace?: boolean;
  accept_findings?: boolean;
}

/** A skill is named by its domain and its name. */
export class Skills {
  constructor(readonly http: Http) {}

  async *list(query: { domain?: string } = {}): AsyncGenerator<SkillAnswer> {
    yield* paged(async (after) => {
      const page = await this.http.send(operations.skillsList({ ...query, after }));
      return [page.skills, page.next];
    });
  }

  /** `hits`, the best first. */
  search(words: string, options: { limit?: number } = {}): Promise<SearchAnswer> {
    return this.http.send(operations.skillsSearch({ q: words, ...options }));
  }

  get(domain: string, name: string): Promise<JsonObject> {
    return this.http.send(operations.skillsGet(domain, name));
  }

  /** One of its files; SKILL.md where none is named. */
  file(domain: string, name: string, path?: string): Promise<Uint8Array> {
    return this.http.send(operations.skillsFile(domain, name, { path }));
  }

  /** All of it, for `upload`. */
  archive(domain: string, name: string): Promise<Uint8Array> {
    return this.http.send(operations.skillsArchive(domain, name));
  }

  versions(domain: string, name: string): Promise<VersionsAnswer> {
    return this.http.send(operations.skillsVersions(domain, name));
  }

  validate(domain: string, name: string, options: { strict?: boolean } = {}): Promise<JsonObject> {
    return this.http.send(operations.skillsValidate(domain, name, options));
  }

  lint(domain: string, name: string): Promise<JsonObject> {
    return this.http.send(operations.skillsLint(domain, name));
  }

  /** What `upload` would say of its form; nothing is kept. */
  validateArchive(archive: Uint8Array, options: { strict?: boolean } = {}): Promise<JsonObject> {
    return this.http.send(operations.skillsValidateArchive(archive, options));
  }

  /** What `upload` would find in it; nothing is kept. */
  lintArchive(archive: Uint8Array): Promise<JsonObject> {
    return this.http.send(operations.skillsLintArchive(archive));
  }

  /** Publish a skill: `.skill`, zip or tar, compressed or not. */
  upload(domain: string, archive: Uint8Array, options: UploadOptions = {}): Promise<UploadedAnswer> {
    return this.http.send(operations.skillsUpload(archive, { domain, ...options }));
  }

  delete(domain: string, name: string, options: ActionOptions = {}): Promise<void> {
    return this.http.send(operations.skillsDelete(domain, name, options));
  }

  /** Run one of its scripts in a fresh sandbox: `script`, with `args`. One that fails is an error only with `check: true`. */
  async run(domain: string, name: string, options: SkillRunRequest & { check?: boolean } = {}): Promise<CommandResult> {
    const { check, ...body } = options;
    const operation = operations.skillsRun(domain, name, body);
    const result = resultOf(await this.http.send(operation, commandMs(body.timeout_ms, body.policy)));
    return check ? result.check() : result;
  }
}
