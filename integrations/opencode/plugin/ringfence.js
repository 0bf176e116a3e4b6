// Written by `ringfence setup opencode`: commands run in a sandbox, by sandbox_run, whatever a project's settings say.
export const Ringfence = async () => ({
  "tool.execute.before": async (input) => {
    if (input.tool === "bash") {
      throw new Error("ringfence: the bash tool is off, use ringfence_sandbox_run")
    }
  },
})
