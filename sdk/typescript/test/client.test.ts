// The client against a real server: runs, sandboxes, processes, files, errors.

import assert from "node:assert/strict";
import http from "node:http";
import type net from "node:net";
import { after, before, test } from "node:test";

import {
  AnswerNotUnderstood,
  AuthenticationFailed,
  BadRequest,
  BeyondCeiling,
  CommandFailed,
  ConnectionFailed,
  FileDenied,
  Forbidden,
  NameTaken,
  NoKey,
  NoSuchFile,
  NotFound,
  RequestTimeout,
  Ringfence,
  type Sandbox,
  SandboxEnded,
  ServerFailed,
  errorOf,
  operations,
  runSandboxed,
} from "../src/index.js";
import { Relay, Server, all } from "./serving.js";

let server: Server;
let users = 0;
before(async () => {
  server = await Server.start();
});
after(async () => {
  await server.stop();
});

/** A user of its own for each test, so that none sees another's workspace. */
function client(): Ringfence {
  return new Ringfence({ url: server.url, key: server.key(`u${++users}`) });
}

async function alive(ringfence: Ringfence): Promise<string[]> {
  const ids: string[] = [];
  for await (const sandbox of ringfence.sandboxes.list({ state: "alive" })) ids.push(sandbox.id);
  return ids;
}

test("a string is for the shell and an array is not", async () => {
  const ringfence = client();
  assert.equal((await ringfence.run("echo $((6*7)); exit 3")).exit_code, 3);
  assert.equal((await ringfence.run(["echo", "$HOME; id"])).stdout, "$HOME; id\n");
  assert.equal((await ringfence.run("cat; echo $A", { stdin: "in ", env: { A: "b" } })).stdout, "in b\n");
  assert.deepEqual((await ringfence.run(["printf", "\\377\\n"])).stdout_bytes, new Uint8Array([255, 10]));
});

test("a failed command is a result unless it is checked", async () => {
  const ringfence = client();
  await assert.rejects(ringfence.run("echo no >&2; exit 4", { check: true }), (error) => {
    assert(error instanceof CommandFailed);
    assert.equal(error.result.stderr, "no\n");
    assert.match(error.message, /ended with 4: no/);
    return true;
  });
  const late = await ringfence.run("sleep 100", { timeout_ms: 50 });
  assert(late.timed_out && late.exit_code === 124);
});

test("what is blocked is told", async () => {
  const result = await client().run("unshare -U true");
  assert.equal(result.denials[0]?.["what"], "unshare");
  assert.match(result.forModel(), /\[exit status 1\]\n\[denied: /);
});

test("the one-line way", async () => {
  process.env["RINGFENCE_URL"] = server.url;
  process.env["RINGFENCE_API_KEY"] = server.key("line");
  assert.equal(await runSandboxed("echo hello"), "hello");
  assert.match(await runSandboxed(`cat ${server.directory}/log`), /No such file/);
  delete process.env["RINGFENCE_API_KEY"];
  assert.throws(() => new Ringfence(), NoKey);
});

test("a sandbox stays until its block ends", async () => {
  const ringfence = client();
  let sandbox: Sandbox;
  {
    await using made = await ringfence.sandboxes.create({ name: "work", labels: { a: "b" } });
    sandbox = made;
    await made.run("echo one > /tmp/kept", { check: true });
    assert.equal((await made.run("cat /tmp/kept")).stdout, "one\n");
    const whole = await made.get();
    assert.deepEqual([whole.name, whole.state, whole.labels], ["work", "alive", { a: "b" }]);
    await made.pause();
    await made.resume();
    await made.extend({ ttl_ms: 600_000 });
    assert(await made.stats());
    assert.deepEqual(await alive(ringfence), [made.id]);
  }
  assert.deepEqual(await alive(ringfence), []);
  await assert.rejects(sandbox.run("true"), (error) => error instanceof NotFound || error instanceof SandboxEnded);
});

test("a sandbox is taken away when its block throws", async () => {
  const ringfence = client();
  const failing = ringfence.sandboxes.with(async (sandbox) => {
    await sandbox.processes.start("sleep 1000");
    throw new RangeError("oops");
  });
  await assert.rejects(failing, RangeError);
  assert.deepEqual(await alive(ringfence), []);
  // The twin: without the block it stays.
  const left = await ringfence.sandboxes.create();
  assert.deepEqual(await alive(ringfence), [left.id]);
  await left.delete();
  await left[Symbol.asyncDispose]();
});

test("processes", async () => {
  await client().sandboxes.with(async (sandbox) => {
    const process = await sandbox.processes.start("read line; echo got $line; exit 5");
    await process.write("a line\n", { close: true });
    assert.equal((await process.wait())["code"], 5);
    assert.equal((await process.logs()).stdout, "got a line\n");
    assert.equal((await process.logs({ from: 4 })).stdout, "a line\n");
    const endless = await sandbox.processes.start(["sleep", "1000"]);
    await endless.kill();
    assert.equal((await endless.wait())["signal"], 9);
    assert.equal((await sandbox.processes.list()).length, 2);
  });
});

test("files", async () => {
  await client().sandboxes.with(async (sandbox) => {
    const { files } = sandbox;
    await files.write("a b.txt", "text ✓");
    await files.write("/workspace/bin", new Uint8Array([0, 255]), { mode: 0o755 });
    assert.equal(await files.readText("a b.txt"), "text ✓");
    assert.deepEqual(await files.read("bin"), new Uint8Array([0, 255]));
    assert.match((await files.stat("bin")).mode, /755$/);
    await files.makeDirectory("x/y", { parents: true });
    await files.move("a b.txt", "x/y/c");
    assert.deepEqual(await all(files.list("x")), [{ kind: "directory", name: "y" }]);
    await sandbox.run("mkdir many && cd many && touch $(seq 1000 1120)");
    assert.equal((await all(files.list("many"))).length, 121);
    await files.remove("x", { recursive: true });
    await assert.rejects(files.read("x/y/c"), NoSuchFile);
    await assert.rejects(files.write("/etc/passwd", "x"), FileDenied);
  });
});

test("every noun", async () => {
  const ringfence = client();
  assert.equal((await ringfence.me()).role, "operator");
  assert((await ringfence.status()).version);
  assert.equal((await ringfence.send(operations.statusHealthz())).trim(), "ok");
  await ringfence.run("true", { workspace: "mine" });
  assert((await all(ringfence.workspaces.list())).some((one) => one.name === "mine"));
  assert.equal((await ringfence.workspaces.get("mine")).name, "mine");
  await ringfence.workspaces.delete("mine");
  const admin = new Ringfence({ url: server.url, key: server.admin });
  await admin.users.create("temporary", "viewer");
  assert((await admin.users.change("temporary", { disabled: true })).disabled);
  const made = await admin.keys.create({ user: "temporary", role: "viewer" });
  assert((await all(admin.keys.list())).some((one) => one.id === made.id));
  await admin.keys.revoke(made.id);
  await admin.users.delete("temporary");
  assert((await admin.audit.verify()).whole);
  for await (const row of admin.audit.rows({ kind: "run" })) assert.equal(row["kind"], "run");
  assert.match(await admin.audit.export(), /"kind":"run"/);
});

test("classes by code", async () => {
  const ringfence = client();
  await assert.rejects(ringfence.run("true", { profile: "permissive" }), (error) => {
    assert(error instanceof BeyondCeiling);
    assert.deepEqual([error.status, error.code, error.name], [403, "beyond_ceiling", "BeyondCeiling"]);
    assert(error.hint && error.requestId && error.message.includes(error.hint));
    return true;
  });
  await assert.rejects(ringfence.run([""]), BadRequest);
  await assert.rejects(ringfence.sandboxes.attach("nothing").run("true"), NotFound);
  await assert.rejects(all(ringfence.users.list()), Forbidden);
  await assert.rejects(new Ringfence({ url: server.url, key: "rf_wrong" }).me(), AuthenticationFailed);
  await ringfence.sandboxes.with(
    async () => {
      await assert.rejects(ringfence.sandboxes.create({ name: "one" }), NameTaken);
    },
    { name: "one" },
  );
  await assert.rejects(ringfence.stream("true", { profile: "permissive" }).wait(), BeyondCeiling);
  assert(errorOf(502, "<html>bad gateway", null) instanceof ServerFailed);
  assert.equal(errorOf(418, '{"error":{"code":"constructor","message":"m"}}', null).code, "constructor");
});

test("no id reaches another route", async () => {
  for (const bad of ["", ".", ".."]) assert.throws(() => operations.sandboxesGet(bad), RangeError);
  await assert.rejects(client().sandboxes.attach("x/../../me").get(), NotFound);
});

test("no server, and no answer", async () => {
  let closed = "";
  {
    await using relay = await Relay.before(server.port, () => undefined);
    closed = relay.url;
  }
  const nobody = new Ringfence({ url: closed, key: "rf_x", retries: 1 });
  await assert.rejects(nobody.me(), (error) => error instanceof ConnectionFailed && /ringfence serve/.test(error.message));
  assert.throws(() => new Ringfence({ url: "localhost:7070", key: "rf_x" }), RangeError);
  for (const key of ["rf_a\nb", "rf_a b", "rf_ä"]) {
    assert.throws(() => new Ringfence({ url: server.url, key }), (error) => !String(error).includes(key));
  }
  assert.equal((await new Ringfence({ url: server.url, key: ` ${server.admin}\n` }).me()).role, "admin");
});

test("an answer that never comes, and one that nobody waits for", async () => {
  await using relay = await Relay.before(server.port, () => "hold");
  const ringfence = new Ringfence({ url: relay.url, key: server.key("slow"), timeout_ms: 200 });
  await assert.rejects(ringfence.me(), RequestTimeout);
  const stop = new AbortController();
  const running = ringfence.run("true", { signal: stop.signal });
  stop.abort(new RangeError("enough"));
  await assert.rejects(running, RangeError);
});

test("a redirect is not followed, and an action that waits must be one", async () => {
  const asked: string[] = [];
  let status = 302;
  const other = http.createServer((request, response) => {
    asked.push(request.url ?? "");
    response.writeHead(status, { location: "/elsewhere" });
    response.end("{}");
  });
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  try {
    const url = `http://127.0.0.1:${(other.address() as net.AddressInfo).port}`;
    const ringfence = new Ringfence({ url, key: "rf_x" });
    await assert.rejects(ringfence.me(), BadRequest);
    assert.deepEqual(asked, ["/v1/me"]);
    status = 202;
    for (const asking of [ringfence.run("true"), ringfence.stream("true").wait()]) {
      await assert.rejects(asking, (error) => error instanceof AnswerNotUnderstood);
    }
  } finally {
    other.closeAllConnections();
    other.close();
  }
});
