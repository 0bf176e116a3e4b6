// Ports of a sandbox's own loopback, reached through the server with its owner's key.

import * as operations from "./generated/operations.js";
import type { Http } from "./http.js";

export class Ports {
  constructor(
    readonly http: Http,
    readonly sandboxId: string,
  ) {}

  /** Let requests in, and give the URL that they go to: `url`. */
  async show(port: number): Promise<string> {
    await this.http.send(operations.portsShow(this.sandboxId, { port }));
    return this.url(port);
  }

  async list(): Promise<number[]> {
    return (await this.http.send(operations.portsList(this.sandboxId))).ports.map((one) => one.port);
  }

  hide(port: number): Promise<void> {
    return this.http.send(operations.portsHide(this.sandboxId, port));
  }

  /** Where what listens on a shown port is reached: any method, with `Authorization: Bearer` and a key of its owner. */
  url(port: number, path = ""): string {
    return `${this.http.url}/v1/sandboxes/${encodeURIComponent(this.sandboxId)}/ports/${port}/http/${path.replace(/^\/+/, "")}`;
  }
}
