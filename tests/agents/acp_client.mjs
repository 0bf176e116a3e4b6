// An ACP client (npm `@agentclientprotocol/sdk`): one session and one prompt with an agent that is started as an editor
// would start it. argv: where npm packages are, the directory of the session, the agent and its arguments. What happened is
// one line of JSON on stdout.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [packages, cwd, ...argv] = process.argv.slice(2);
const found = createRequire(packages + "/").resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(found));

const agent = spawn(argv[0], argv.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => agent.on("exit", resolve));
const seen = { updates: [], asked: 0 };
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const client = acp
  .client({ name: "test" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    seen.asked += 1;
    const option = params.options.find((one) => one.kind === "allow_once") ?? params.options[0];
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    seen.updates.push(params.update);
  });
await client.connectWith(stream, async (ctx) => {
  const hello = await ctx.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
  });
  seen.protocol = hello.protocolVersion;
  const session = await ctx.request(acp.methods.agent.session.new, { cwd, mcpServers: [] });
  seen.session = session.sessionId;
  const done = await ctx.request(acp.methods.agent.session.prompt, {
    sessionId: session.sessionId,
    prompt: [{ type: "text", text: "go" }],
  });
  seen.stopped = done.stopReason;
});
agent.stdin.end();
agent.kill("SIGTERM");
await ended;
console.log(JSON.stringify(seen));
process.exit(0);
