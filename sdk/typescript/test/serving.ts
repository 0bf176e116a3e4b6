// `ringfence serve` as a test starts it, and a relay in front of it that can break connections.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { Ringfence } from "../src/index.js";

function binary(): string {
  const given = process.env["RINGFENCE_BINARY"];
  if (given) return given;
  const target = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../../../target");
  const built = readdirSync(target).map((one) => path.join(target, one, "debug/ringfence"));
  return built.find((one) => existsSync(one)) ?? "ringfence";
}

/** Whoever has such a name must ask a person for everything. */
const CONFIG = `
[[actions.rules]]
name = "one ends what one made"
then = "allow"
kinds = ["sandbox.delete"]

[[actions.rules]]
name = "asks"
then = "ask"
users = ["asks*"]

[roles.operator.skills]
see = ["*"]
publish = ["team"]
overwrite = ["team"]

[roles.operator.ceiling]
profile = "moderate"
[roles.operator.ceiling.filesystem]
toolchains = false
[roles.operator.ceiling.network]
allow = ["api.example.com"]
`;

export async function all<T>(rows: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const row of rows) found.push(row);
  return found;
}

/** Ended with the test's process, also when that is killed: the kernel sends the signal. */
export class Server {
  readonly directory = mkdtempSync(path.join(tmpdir(), "rf-ts-"));
  url = "";
  port = 0;
  admin = "";
  readonly #environment = {
    PATH: process.env["PATH"],
    HOME: path.join(this.directory, "home"),
    RINGFENCE_STATE_DIR: path.join(this.directory, "state"),
  };
  #process: ChildProcess | undefined;

  static async start(): Promise<Server> {
    const server = new Server();
    mkdirSync(path.join(server.directory, "home"));
    const log = path.join(server.directory, "log");
    const config = path.join(server.directory, "server.toml");
    writeFileSync(config, CONFIG);
    const words = ["--pdeathsig", "KILL", binary(), "serve", "--listen", "127.0.0.1:0", "--json", "--config", config];
    const options = { env: server.#environment, cwd: server.directory };
    const child = spawn("setpriv", words, { ...options, stdio: ["ignore", "pipe", openSync(log, "w")] });
    server.#process = child;
    // For whoever tidies up after a test that was killed.
    writeFileSync(path.join(server.directory, "server.pid"), String(child.pid));
    for await (const line of createInterface({ input: child.stdout! })) {
      server.url = JSON.parse(line).addresses[0];
      break;
    }
    if (!server.url) throw new Error(`the server did not start: ${readFileSync(log, "utf8")}`);
    server.port = Number(new URL(server.url).port);
    server.admin = server.key("root", "admin");
    return server;
  }

  /** Fails where a test has left a sandbox. */
  async stop(): Promise<void> {
    const left: string[] = [];
    const ringfence = new Ringfence({ url: this.url, key: this.admin });
    for await (const sandbox of ringfence.sandboxes.list({ state: "alive", all: true })) {
      left.push(sandbox.id);
      await sandbox.delete();
    }
    const ended = new Promise((resolve) => this.#process!.once("exit", resolve));
    this.#process!.kill("SIGTERM");
    await ended;
    rmSync(this.directory, { recursive: true, force: true });
    if (left.length > 0) throw new Error(`sandboxes were left behind: ${left}`);
  }

  key(user: string, role = "operator"): string {
    const words = ["key", "create", "--user", user, "--role", role];
    return execFileSync(binary(), words, { env: this.#environment, cwd: this.directory, encoding: "utf8", stdio: "pipe" }).trim();
  }
}

/** How much of an answer the client may have before its connection ends; `hold` lets it wait; undefined is all. */
type Cut = (connection: number, answered: Buffer) => number | "hold" | undefined;

/**
 * Carries bytes to and from the server, and closes a connection where `cut` says so: it is asked with the number of a
 * connection and all that the server has answered on it.
 */
export class Relay implements AsyncDisposable {
  url = "";
  connections = 0;
  readonly #open = new Set<net.Socket>();
  readonly #listener: net.Server;

  private constructor(port: number, cut: Cut) {
    this.#listener = net.createServer((client) => {
      const number = ++this.connections;
      const upstream = net.connect(port, "127.0.0.1");
      let answered = Buffer.alloc(0);
      for (const socket of [client, upstream]) {
        this.#open.add(socket);
        socket.on("error", () => undefined);
      }
      client.on("data", (chunk) => upstream.write(chunk));
      client.on("close", () => upstream.destroy());
      upstream.on("close", () => client.end());
      upstream.on("data", (chunk) => {
        const told = answered.length;
        answered = Buffer.concat([answered, chunk]);
        const most = cut(number, answered);
        if (most === "hold") return;
        if (most === undefined) return void client.write(chunk);
        client.end(answered.subarray(told, Math.max(most, told)), () => client.destroy());
        upstream.destroy();
      });
    });
  }

  static async before(port: number, cut: Cut): Promise<Relay> {
    const relay = new Relay(port, cut);
    await new Promise<void>((resolve) => relay.#listener.listen(0, "127.0.0.1", resolve));
    relay.url = `http://127.0.0.1:${(relay.#listener.address() as net.AddressInfo).port}`;
    return relay;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#open) socket.destroy();
    await new Promise((resolve) => this.#listener.close(resolve));
  }
}
