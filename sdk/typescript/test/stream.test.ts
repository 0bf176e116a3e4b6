// Streams: events as they come, connections that break, and what may be sent twice.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { ConnectionFailed, type Event, NotFound, Ringfence, StreamBroken } from "../src/index.js";
import { EventDecoder, type RawEvent } from "../src/events.js";
import { Relay, Server } from "./serving.js";

let server: Server;
let users = 0;
before(async () => {
  server = await Server.start();
});
after(async () => {
  await server.stop();
});

function newKey(): string {
  return server.key(`u${++users}`);
}

function client(): Ringfence {
  return new Ringfence({ url: server.url, key: newKey() });
}

test("events in their order", async () => {
  const ringfence = client();
  await ringfence.sandboxes.with(async (sandbox) => {
    const command = "echo out; echo err >&2; exit 3";
    for (const stream of [ringfence.stream(command), sandbox.stream(command)]) {
      const events: Event[] = [];
      for await (const event of stream) events.push(event);
      assert.equal(events[0]?.type, "start");
      assert.equal(stream.exit?.code, 3);
      assert.equal(events.at(-1), stream.exit);
      const written = events.flatMap((one) => ("text" in one ? [`${one.type}: ${one.text}`] : [])).sort();
      assert.deepEqual(written, ["stderr: err\n", "stdout: out\n"]);
    }
  });
});

test("output arrives while the command runs", async () => {
  await client().sandboxes.with(async (sandbox) => {
    const command = "echo first; while [ ! -e go ]; do sleep 0.01; done; echo second";
    await using stream = sandbox.stream(command);
    const text = stream.text();
    assert.equal((await text.next()).value, "first\n");
    await sandbox.files.write("go", "");
    assert.equal((await text.next()).value, "second\n");
    assert((await text.next()).done);
  });
});

test("any bytes", async () => {
  const ringfence = client();
  const odd = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh\r\ni";
  assert.equal((await ringfence.stream(["printf", "%s", odd]).wait()).stdout, odd);
  const bytes = (await ringfence.stream(["printf", "\\000\\377\\n"]).wait()).stdout_bytes;
  assert.deepEqual(bytes, new Uint8Array([0, 255, 10]));
  const much = await ringfence.stream("head -c 3000000 /dev/zero | tr '\\0' x").wait();
  assert.equal(much.stdout.length, 3_000_000);
});

test("a stream that is left ends its command", async () => {
  await client().sandboxes.with(async (sandbox) => {
    for (const leave of ["break", "close"]) {
      const stream = sandbox.stream(`echo on; : ${leave}; sleep 1000`);
      for await (const event of stream) {
        if (event.type !== "stdout") continue;
        if (leave === "close") await stream.close();
        break;
      }
      const all = await sandbox.processes.list();
      const ended = all.find((one) => JSON.stringify(one).includes(leave));
      assert(ended);
      // It would not come back for a thousand seconds.
      assert.equal((await sandbox.processes.attach(Number(ended["process"])).wait())["signal"], 9);
    }
  });
});

const COUNT = "i=0; while [ $i -lt 40 ]; do echo line $i; sleep 0.002; i=$((i+1)); done; echo x >> ran; wc -l < ran";
const LINES = Array.from({ length: 40 }, (_, n) => `line ${n}\n`).join("");

test("a broken stream is taken up after its last event", async () => {
  const key = newKey();
  for (const where of ["run", "sandbox"]) {
    await using relay = await Relay.before(server.port, (connection, answered) =>
      connection <= 4 && answered.includes("text/event-stream") && answered.length > 1200 ? 1200 : undefined,
    );
    const ringfence = new Ringfence({ url: relay.url, key });
    const options = { workspace: where };
    await ringfence.sandboxes.with(async (sandbox) => {
      const stream = where === "run" ? ringfence.stream(COUNT, { keep: true, ...options }) : sandbox.stream(COUNT, { keep: true });
      assert.equal((await stream.wait()).stdout, `${LINES}1\n`);
    }, options);
    assert(relay.connections > 2);
  }
});

test("a broken stream without keep is an error", async () => {
  await using relay = await Relay.before(server.port, (_, answered) =>
    answered.includes("event: stdout") ? answered.length : undefined,
  );
  const ringfence = new Ringfence({ url: relay.url, key: newKey() });
  await assert.rejects(ringfence.stream("echo out; sleep 1000").wait(), (error) => {
    return error instanceof StreamBroken && /keep: true/.test(error.message);
  });
});

test("a stream is taken up by another client, and by no other user", async () => {
  const key = newKey();
  const stream = new Ringfence({ url: server.url, key }).stream(COUNT, { keep: true });
  let seen = "";
  for await (const text of stream.text()) {
    seen = text;
    break;
  }
  const last = stream.lastEventId;
  assert(last && seen);
  const second = new Ringfence({ url: server.url, key });
  assert.equal(seen + (await second.resume(last).wait()).stdout, `${LINES}1\n`);
  await assert.rejects(client().resume(last).wait(), (error) => error instanceof StreamBroken && error.cause instanceof NotFound);
});

test("a lost answer is asked for again and the command runs once", async () => {
  let lost = 0;
  await using relay = await Relay.before(server.port, (_, answered) =>
    answered.includes(" 200 OK") && lost++ < 2 ? 0 : undefined,
  );
  const key = newKey();
  const ringfence = new Ringfence({ url: relay.url, key });
  assert.equal((await ringfence.run("echo x >> log; wc -l < log")).stdout, "1\n");
  assert(lost > 2);
  // The twin: with no second attempt the answer is lost, though the command ran.
  lost = 0;
  const once = new Ringfence({ url: relay.url, key, retries: 0 });
  await assert.rejects(once.run("echo x >> log; wc -l < log"), ConnectionFailed);
});

test("a lost delete is done", async () => {
  let lost = 0;
  await using relay = await Relay.before(server.port, (_, answered) =>
    answered.includes(" 204 ") && lost++ < 1 ? 0 : undefined,
  );
  const ringfence = new Ringfence({ url: relay.url, key: newKey() });
  await (await ringfence.sandboxes.create()).delete();
  assert(lost > 0);
});

test("bytes cut anywhere are the same events", () => {
  const text = ': alive\r\nevent: stdout\r\nid: a.1\r\ndata: {"text":\r\ndata:  "é"}\r\n\r\ndata: x\r\rid: 7\n\ndata\n\n';
  const bytes = new TextEncoder().encode(text);
  const expected: RawEvent[] = [
    { id: "a.1", name: "stdout", data: '{"text":\n "é"}' },
    { id: undefined, name: "message", data: "x" },
    { id: undefined, name: "message", data: "" },
  ];
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const decoder = new EventDecoder();
    assert.deepEqual([...decoder.feed(bytes.subarray(0, cut)), ...decoder.feed(bytes.subarray(cut))], expected);
  }
});
