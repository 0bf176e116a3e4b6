// Sort versions, or pick the newest that fits a range.
import semver from "semver";

const args = process.argv.slice(2);
let range = null;
if (args[0] === "--range") {
  range = args[1];
  args.splice(0, 2);
}
const wrong = args.filter((version) => !semver.valid(version));
if (args.length === 0 || wrong.length > 0) {
  console.error(wrong.length > 0 ? `not a version: ${wrong.join(", ")}` : "usage: sort.mjs [--range RANGE] VERSION...");
  process.exit(2);
}
if (range) {
  console.log(semver.maxSatisfying(args, range) ?? "none fits");
} else {
  console.log(semver.sort(args).join("\n"));
}
