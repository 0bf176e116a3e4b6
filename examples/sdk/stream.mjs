// A streamed run, and a sandbox that stays: RINGFENCE_API_KEY=… node examples/sdk/stream.mjs

import { Ringfence } from "ringfence";

const ringfence = new Ringfence();
for await (const text of ringfence.stream("for i in 1 2 3; do echo run $i; sleep 0.2; done").text()) {
  process.stdout.write(text);
}

await ringfence.sandboxes.with(async (sandbox) => {
  await sandbox.files.write("numbers", "3\n1\n2\n");
  console.log("sorted:", (await sandbox.run("sort numbers", { check: true })).stdout.split("\n").slice(0, -1));
  const { denials } = await sandbox.run("unshare -U true");
  console.log("denied:", denials[0].remedy);
});
