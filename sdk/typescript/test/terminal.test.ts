// Commands on terminals. Run with --experimental-websocket where Node is older than 22.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Ringfence, RingfenceError, StreamBroken, WaitingForApproval } from "../src/index.js";
import { Server } from "./serving.js";

let server: Server;
before(async () => {
  server = await Server.start();
});
after(async () => {
  await server.stop();
});

function client(user: string, role = "operator"): Ringfence {
  return new Ringfence({ url: server.url, key: server.key(user, role) });
}

test("a shell of one's own", async () => {
  await client("shell").sandboxes.with(async (sandbox) => {
    await using terminal = await sandbox.terminal(["sh"], { rows: 30, columns: 100 });
    // What to type once something is shown.
    const script: [string, () => void][] = [
      ["30 100\r\nis-a-terminal\r\n", () => (terminal.resize(50, 120), terminal.write("stty size\n"))],
      ["50 120\r\n", () => terminal.write("exit 7\n")],
    ];
    terminal.write("stty size; test -t 0 && echo is-a-terminal\n");
    let shown = "";
    for await (const piece of terminal) {
      shown += Buffer.from(piece).toString();
      if (script[0] && shown.includes(script[0][0])) script.shift()![1]();
    }
    assert.deepEqual(script, [], shown);
    assert.equal(terminal.exit?.["code"], 7);
  });
});

test("a command ends with its terminal", async () => {
  await client("ends").sandboxes.with(async (sandbox) => {
    const terminal = await sandbox.terminal("echo up; sleep 1004 & sleep 1004");
    for await (const piece of terminal) if (Buffer.from(piece).includes("up")) break;
    await terminal.close();
    assert.throws(() => terminal.write("x"), StreamBroken);
    const [ended] = (await sandbox.processes.list()).filter((one) => JSON.stringify(one).includes("sleep 1004"));
    await sandbox.processes.attach(Number(ended?.["process"])).wait();
  });
});

test("what waits, and what is missing", async () => {
  const asking = client("asks-terminal");
  const approver = client("decides", "approver");
  const approved = async (asked: Promise<unknown>): Promise<string> => {
    const told: unknown = await asked.catch((error: unknown) => error);
    assert(told instanceof WaitingForApproval, `${told}`);
    await approver.actions.approve(told.action.id);
    return told.action.id;
  };
  const made = await approved(asking.sandboxes.create());
  await asking.sandboxes.with(
    async (sandbox) => {
      const action = await approved(sandbox.terminal(["echo", "ran"]));
      let shown = "";
      for await (const piece of await sandbox.terminal(["echo", "ran"], { action })) shown += Buffer.from(piece).toString();
      assert.equal(shown, "ran\r\n");
      const runtime = globalThis as { WebSocket?: unknown };
      const held = runtime.WebSocket;
      runtime.WebSocket = undefined;
      try {
        await assert.rejects(sandbox.terminal(), (error) => error instanceof RingfenceError && /Node 22/.test(error.message));
      } finally {
        runtime.WebSocket = held;
      }
    },
    { action: made },
  );
});
