// The npm `@modelcontextprotocol/sdk` client: the same steps without a model. It checks answers against output schemas. With
// `ask` as the last argument it can ask its person, and each step begins with what that person says.
import { execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.CLIENTS + "/");
const load = async (path) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + path)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const { ElicitRequestSchema } = await load("types.js");

const [transport, target, key, steps, ask] = process.argv.slice(2);
const over = transport === "stdio"
  ? new StdioClientTransport({ command: target, args: ["mcp"], env: process.env })
  : new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers: { Authorization: `Bearer ${key}` } } });
const client = new Client({ name: "sdk", version: "1" }, { capabilities: ask ? { elicitation: {} } : {} });
const questions = [];
let says;
if (ask) {
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    questions.push(params.message);
    return says === "accept" ? { action: says, content: { allow: true } } : { action: says };
  });
}
await client.connect(over);
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const results = [];
for (const step of JSON.parse(steps)) {
  const [name, args] = step.slice(-2);
  says = step.length > 2 ? step[0] : undefined;
  if (args.action === "$ACTION") {
    args.action = results.map((text) => JSON.parse(text).action).findLast(Boolean);
    execFileSync(process.env.RINGFENCE, ["actions", "approve", args.action]);
  }
  const result = await client.callTool({ name, arguments: args });
  const text = result.content[0].text;
  if (JSON.stringify(JSON.parse(text)) !== JSON.stringify(result.structuredContent)) throw new Error(text);
  results.push(text);
}
console.log(JSON.stringify({ tools, results, questions }));
await client.close();
