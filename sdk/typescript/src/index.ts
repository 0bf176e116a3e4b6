// Ringfence: commands in sandboxes that prove they are closed. See README.md.

export { type RunOptions, Ringfence, runSandboxed } from "./client.js";
export * from "./errors.js";
export type { DenialEvent, Event, ExitEvent, GapEvent, OutputEvent, StartEvent } from "./events.js";
export type * as models from "./generated/models.js";
export * as operations from "./generated/operations.js";
export type { ClientOptions } from "./http.js";
export type { Operation } from "./operation.js";
export { type ActionEvent, Events, type FileChange } from "./listening.js";
export type { ActionOptions } from "./paging.js";
export { Process } from "./processes.js";
export { type Command, CommandResult } from "./result.js";
export { type ExecOptions, Sandbox } from "./sandbox.js";
export { Stream } from "./stream.js";
export { Terminal, type TerminalOptions } from "./terminal.js";
