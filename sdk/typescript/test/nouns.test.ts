// Snapshots, forks, diffs, commits, ports, skills, secrets, trees and actions against a real server.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";

import {
  AnswerNotUnderstood,
  AnswerTooLarge,
  ApiError,
  Conflict,
  NotFound,
  Ringfence,
  WaitingForApproval,
} from "../src/index.js";
import { tarOf, unpack } from "../src/trees.js";
import { Relay, Server, all } from "./serving.js";

let server: Server;
let scratch: string;
let users = 0;
before(async () => {
  server = await Server.start();
  scratch = mkdtempSync(path.join(tmpdir(), "rf-ts-trees-"));
});
after(async () => {
  rmSync(scratch, { recursive: true, force: true });
  await server.stop();
});

function client(user = `n${++users}`, role = "operator"): Ringfence {
  return new Ringfence({ url: server.url, key: server.key(user, role) });
}

function directory(): string {
  return mkdtempSync(path.join(scratch, "d-"));
}

async function waiting(asked: Promise<unknown>): Promise<WaitingForApproval> {
  let told: unknown;
  await asked.catch((error: unknown) => (told = error));
  assert(told instanceof WaitingForApproval, `${told}`);
  return told;
}

test("snapshots", async () => {
  const ringfence = client();
  let taken = "";
  let exported = new Uint8Array();
  await ringfence.sandboxes.with(
    async (sandbox) => {
      await sandbox.files.write("a", "one");
      // More than a body that the server reads whole: it comes back as a stream, without an Idempotency-Key.
      await sandbox.run("head -c 17000000 /dev/urandom > large", { check: true });
      taken = (await sandbox.snapshots.take("before")).id;
      await sandbox.files.write("a", "two");
      assert.deepEqual((await sandbox.diff({ since: taken })).map((one) => [one.path, one.change]), [["a", "changed"]]);
      assert.match(await sandbox.diffText({ since: "before" }), /-one[^]*\+two/);
      assert.equal((await sandbox.snapshots.rollback("before")).written, 1);
      assert.equal(await sandbox.files.readText("a"), "one");
      assert.deepEqual((await all(sandbox.snapshots.list())).map((one) => one.id), [taken]);
      exported = new Uint8Array(await ringfence.snapshots.export(taken));
    },
    { workspace: "private" },
  );
  assert.equal((await ringfence.snapshots.get(taken)).name, "before");
  const [fork] = await ringfence.snapshots.fork(taken);
  assert.equal(await fork!.files.readText("a"), "one");
  await fork!.delete();
  await ringfence.snapshots.delete(taken);
  await assert.rejects(ringfence.snapshots.get(taken), NotFound);
  const again = await ringfence.snapshots.import(exported);
  assert.deepEqual((await all(ringfence.snapshots.list())).map((one) => one.id), [again.id]);
});

test("forks go their own ways", async () => {
  await client().sandboxes.with(
    async (sandbox) => {
      await sandbox.files.write("a", "one");
      const forks = await sandbox.fork({ count: 2, ttl_ms: 600_000 });
      await forks[0]!.files.write("a", "two");
      const texts = await Promise.all([sandbox, ...forks].map((one) => one.files.readText("a")));
      await Promise.all(forks.map((one) => one.delete()));
      assert.deepEqual(texts, ["one", "two", "one"]);
    },
    { workspace: "private" },
  );
});

test("a commit is whole or tells its conflicts", async () => {
  const ringfence = client();
  await ringfence.run("echo old > a; echo old > b", { workspace: "w", check: true });
  await ringfence.sandboxes.with(
    async (direct) => {
      await ringfence.sandboxes.with(
        async (overlay) => {
          await overlay.run("echo new > a; echo new > b", { check: true });
          await direct.files.write("b", "theirs\n");
          await assert.rejects(overlay.commit(), (error) => {
            assert(error instanceof Conflict);
            assert.deepEqual(error.detail.paths, ["b"]);
            return true;
          });
          assert.equal((await overlay.commit({ only: ["a"] })).applied.length, 1);
          assert.equal((await direct.files.readText("a")) + (await direct.files.readText("b")), "new\ntheirs\n");
        },
        { workspace: "w", overlay: true },
      );
    },
    { workspace: "w" },
  );
});

test("what listens inside is reached", async () => {
  const key = server.key("listens");
  const ringfence = new Ringfence({ url: server.url, key });
  await ringfence.sandboxes.with(async (sandbox) => {
    await sandbox.files.write("page", "from inside");
    const words = ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", "8000"];
    const process = await sandbox.processes.start(words);
    while (!(await process.logs()).stdout?.includes("Serving")) assert(!(await process.info())?.["result"]);
    assert.equal(await sandbox.ports.show(8000), sandbox.ports.url(8000));
    assert.deepEqual(await sandbox.ports.list(), [8000]);
    const page = sandbox.ports.url(8000, "page");
    const headers = { Authorization: `Bearer ${key}` };
    assert.equal(await (await fetch(page, { headers })).text(), "from inside");
    assert.equal((await fetch(page)).status, 401);
    await sandbox.ports.hide(8000);
    assert.equal((await fetch(page, { headers })).status, 404);
  });
});

async function skill(script: string): Promise<Uint8Array> {
  const made = directory();
  mkdirSync(path.join(made, "word-count/scripts"), { recursive: true });
  const text = "---\nname: word-count\ndescription: Counts the words of a text.\n---\n# Words\nRun scripts/count.sh\n";
  writeFileSync(path.join(made, "word-count/SKILL.md"), text);
  writeFileSync(path.join(made, "word-count/scripts/count.sh"), script, { mode: 0o755 });
  return await tarOf(made);
}

test("skills", async () => {
  const { skills } = client();
  const archive = await skill('#!/bin/sh\necho "$@" | wc -w\n');
  assert(await skills.validateArchive(archive));
  assert(await skills.lintArchive(archive));
  const first = await skills.upload("team", archive);
  assert.equal(first.skill, "team/word-count");
  assert.deepEqual((await all(skills.list({ domain: "team" }))).map((one) => one.name), ["word-count"]);
  assert((await skills.search("words of a text")).hits.length > 0);
  assert.equal((await skills.get("team", "word-count"))["name"], "word-count");
  assert.match(Buffer.from(await skills.file("team", "word-count")).toString(), /^---\nname: word-count/);
  assert.match(Buffer.from(await skills.file("team", "word-count", "scripts/count.sh")).toString(), /wc -w/);
  assert((await skills.validate("team", "word-count")) && (await skills.lint("team", "word-count")));
  assert.equal((await skills.run("team", "word-count", { args: ["a", "b"], check: true })).stdout.trim(), "2");
  const other = await skill("#!/bin/sh\necho other\n");
  await assert.rejects(skills.upload("team", other), Conflict);
  assert.equal((await skills.upload("team", other, { replace: true })).previous, first.digest);
  assert.equal((await skills.versions("team", "word-count")).versions.length, 2);
  assert((await skills.archive("team", "word-count")).length > 0);
  await skills.delete("team", "word-count");
  await assert.rejects(skills.get("team", "word-count"), NotFound);
});

test("a secret is used and never seen, and usage is told", async () => {
  const ringfence = client();
  await ringfence.secrets.set("API_TOKEN", "planted-value");
  assert.deepEqual(await all(ringfence.secrets.list()), ["API_TOKEN"]);
  const order = {
    network: { enabled: true, allowed_domains: ["api.example.com"] },
    secrets: [{ name: "API_TOKEN", hosts: ["api.example.com"] }],
  };
  const { action } = await waiting(ringfence.run("echo $API_TOKEN", order));
  assert.equal(action.level, "high");
  await client("decides", "approver").actions.approve(action.id);
  const result = await ringfence.run("echo $API_TOKEN", { ...order, action: action.id, check: true });
  assert(result.stdout.trim() && !result.stdout.includes("planted-value"));
  await ringfence.secrets.delete("API_TOKEN");
  assert.deepEqual(await all(ringfence.secrets.list()), []);
  await ringfence.run("head -c 100000 /dev/zero > zeros", { workspace: "w", check: true });
  assert((await ringfence.workspaces.usage("w")).bytes >= 100_000);
  assert(Number((await ringfence.usage())["bytes"]) >= 100_000);
});

test("a tree goes in and comes out", async () => {
  const source = directory();
  const deep = "a-long-name-of-a-directory/".repeat(8);
  mkdirSync(path.join(source, deep), { recursive: true });
  writeFileSync(path.join(source, deep, "ünï"), "deep");
  writeFileSync(path.join(source, "run"), "#!/bin/sh\necho ran\n");
  chmodSync(path.join(source, "run"), 0o755);
  writeFileSync(path.join(scratch, "secret"), "the-host-secret");
  symlinkSync(path.join(scratch, "secret"), path.join(source, "link"));
  symlinkSync(scratch, path.join(source, "above"));
  execFileSync("mkfifo", [path.join(source, "pipe")]);
  await client().sandboxes.with(async (sandbox) => {
    assert.equal((await sandbox.files.upload(source, "up")).entries, 2);
    const seen = await sandbox.run("up/run; ls up; ln -s /etc/passwd up/link; mkdir up/empty", { check: true });
    assert.equal(seen.stdout, "ran\na-long-name-of-a-directory\nrun\n");
    const back = path.join(directory(), "back");
    assert.equal(await sandbox.files.download("up", back), 2);
    assert.equal(readFileSync(path.join(back, deep, "ünï"), "utf8"), "deep");
    assert(lstatSync(path.join(back, "run")).mode & 0o100);
    assert.deepEqual(readdirSync(back).sort(), ["a-long-name-of-a-directory", "empty", "run"]);
    await assert.rejects(sandbox.files.download("up", back), /not empty/);
    await sandbox.run("head -c 3000000 /dev/zero > up/large", { check: true });
    await assert.rejects(sandbox.files.downloadTree("up", { most_bytes: 1 << 20 }), AnswerTooLarge);
    await assert.rejects(sandbox.files.uploadTree("up", new Uint8Array(1024).fill(7)), ApiError);
  });
});

test("no name and no link in a tree leads out of it", async () => {
  const made = directory();
  const out = path.join(made, "out");
  // As GNU tar makes them, names and all.
  const tar = (...words: string[]) => new Uint8Array(execFileSync("tar", ["-C", made, "-cf", "-", ...words]));
  writeFileSync(path.join(made, "file"), "x");
  for (const name of ["../out", "/tmp/rf-out", "a/../../out"]) {
    const hostile = tar("-P", `--transform=s,file,${name},`, "file");
    await assert.rejects(unpack(hostile, path.join(made, "in")), AnswerNotUnderstood);
  }
  mkdirSync(out);
  symlinkSync(out, path.join(made, "link"));
  const first = tar("link");
  const second = tar("--transform=s,file,link/file,", "file");
  const hostile = new Uint8Array(Buffer.concat([first.subarray(0, 512), second]));
  // The twin: unpacked as it is, it writes outside.
  mkdirSync(path.join(made, "naive"));
  execFileSync("python3", [
    "-c",
    "import io, sys, tarfile; t = tarfile.open(fileobj=io.BytesIO(sys.stdin.buffer.read())); t.extraction_filter = lambda m, p: m; t.extractall(sys.argv[1])",
    path.join(made, "naive"),
  ], { input: hostile });
  assert(existsSync(path.join(out, "file")));
  rmSync(path.join(out, "file"));
  assert.equal(await unpack(hostile, path.join(made, "safe")), 1);
  assert.deepEqual(readdirSync(out), []);
  assert.equal(readFileSync(path.join(made, "safe/link/file"), "utf8"), "x");
  // Whatever is cut off or damaged is an error, and not a part of the tree.
  await assert.rejects(unpack(second.subarray(0, 700), path.join(made, "cut")), AnswerNotUnderstood);
  const damaged = second.slice();
  damaged[0] = 33;
  await assert.rejects(unpack(damaged, path.join(made, "damaged")), AnswerNotUnderstood);
});

test("changes are heard of", async () => {
  await client().sandboxes.with(async (sandbox) => {
    await using changes = await sandbox.files.watch(".", { recursive: true });
    await sandbox.files.write("new", "text");
    for await (const change of changes) if (change.path.endsWith("new")) break;
    const last = await sandbox.files.watch();
    await sandbox.delete();
    for await (const _ of last);
  });
});

test("the same call again once it is approved", async () => {
  const asking = client("asks-one");
  const approver = client("decides", "approver");
  const told = await waiting(asking.run("echo ran"));
  assert.deepEqual([told.action.state, told.action.kind], ["waiting", "run"]);
  await using events = await approver.actions.events({ after: 0 });
  await approver.actions.approve(told.action.id, { reason: "seen" });
  await assert.rejects(asking.run("echo other", { action: told.action.id }), (error) => error instanceof Conflict && error.code === "changed");
  assert.equal((await asking.run("echo ran", { action: told.action.id })).stdout, "ran\n");
  const states: string[] = [];
  for await (const event of events) {
    if (event.action === told.action.id) states.push(event.state);
    if (states.at(-1) === "done") break;
  }
  assert.deepEqual(states.slice(0, 2), ["waiting", "approved"]);
  const made = await waiting(asking.sandboxes.create());
  await approver.actions.approve(made.action.id);
  await asking.sandboxes.with(
    async (sandbox) => {
      for (const call of [
        (more: { action?: string }) => sandbox.run("true", more),
        (more: { action?: string }) => sandbox.stream("true", more).wait(),
        (more: { action?: string }) => sandbox.processes.start("true", more),
        (more: { action?: string }) => sandbox.files.write("a", "text", more),
        (more: { action?: string }) => sandbox.files.move("a", "b", more),
        (more: { action?: string }) => sandbox.files.remove("b", more),
      ]) {
        const { action } = await waiting(call({}));
        await approver.actions.approve(action.id);
        await call({ action: action.id });
      }
    },
    { action: made.action.id },
  );
});

test("a broken connection is made again after the last event", async () => {
  const key = server.key("asks-three");
  const asking = new Ringfence({ url: server.url, key });
  const first = await asking.actions.submit({ run: { command: ["true"] } });
  // The first connection ends after the first event.
  await using relay = await Relay.before(server.port, (connection, answered) => {
    const end = answered.indexOf("\n\n", Math.max(answered.indexOf("data:"), 0));
    return connection === 1 && answered.includes("data:") && end > 0 ? end + 2 : undefined;
  });
  await using events = await new Ringfence({ url: relay.url, key }).actions.events({ after: 0 });
  const told: string[] = [];
  let second = "";
  for await (const event of events) {
    told.push(event.action);
    if (told.length === 2) break;
    second = (await asking.actions.submit({ run: { command: ["true"] } })).id;
  }
  assert.deepEqual(told, [first.id, second]);
  assert.equal(relay.connections, 2);
});

test("whoever waits hears of the decision, and others are denied, cancelled, remembered", async () => {
  const asking = client("asks-two");
  const approver = client("decides", "approver");
  const running = asking.run("echo ran", { wait_ms: 120_000 });
  await using events = await asking.actions.events({ after: 0 });
  for await (const event of events) {
    await approver.actions.approve(event.action, { remember: "hour" });
    break;
  }
  assert.equal((await running).stdout, "ran\n");
  assert.equal((await asking.run("echo ran")).stdout, "ran\n");
  const [held] = await all(asking.actions.remembered());
  await approver.actions.forget(held!.id);
  const first = await asking.actions.submit({ run: { command: ["true"] } });
  assert.equal((await approver.actions.deny(first.id, { reason: "not today" })).decided_why, "not today");
  const second = await asking.actions.submit({ run: { command: ["true"] } });
  assert.equal((await asking.actions.cancel(second.id)).state, "cancelled");
  assert.equal((await asking.actions.get(first.id)).state, "denied");
  assert.deepEqual((await all(asking.actions.list({ state: "denied" }))).map((one) => one.id), [first.id]);
});
