// The first page: exchange the one-time token, show how to ask.
const at = (id) => document.getElementById(id);
const example = (key) =>
  `curl -H "Authorization: Bearer ${key}" -H 'Content-Type: application/json' \\\n` +
  `     -d '{"command":["python3","-c","print(6*7)"]}' ${location.origin}/v1/run`;
at("example").textContent = example("$KEY");

const token = new URLSearchParams(location.search).get("token");
if (token) {
  // Neither the history nor a bookmark keeps it.
  history.replaceState(null, "", "/");
  at("first").hidden = false;
  at("exchange").addEventListener("click", async () => {
    at("exchange").disabled = true;
    const answer = await fetch("/v1/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token }),
    }).then((response) => response.json(), (error) => ({ error: { message: String(error), hint: "" } }));
    if (answer.error) {
      at("told").textContent = `${answer.error.message}; ${answer.error.hint}`;
      return;
    }
    at("key").hidden = false;
    at("key").textContent = answer.key;
    at("told").textContent = "Keep it: it is not shown again.";
    at("example").textContent = example(answer.key);
  });
}
