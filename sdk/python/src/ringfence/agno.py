"""For the Agno framework: its shell tool and the scripts of its skills, in a sandbox instead of on the host.

    from agno.agent import Agent
    from agno.skills import LocalSkills
    from ringfence.agno import AgentSandbox, ShellTools, Skills

    with AgentSandbox(workspace="project") as sandbox:
        agent = Agent(
            model=...,
            tools=[ShellTools(sandbox)],
            skills=Skills([LocalSkills("skills")], sandbox),
        )

`ShellTools()` and `Skills(loaders)` without a sandbox make one of their own when it is first needed.
"""

from __future__ import annotations

import asyncio
import json
import re
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, Unpack

try:
    from agno.skills import Skills as AgnoSkills
    from agno.skills.loaders.base import SkillLoader
    from agno.skills.skill import Skill
    from agno.tools import Toolkit
    from agno.tools.function import Function
except ImportError as missing:
    raise ImportError("ringfence.agno needs agno: pip install 'ringfence[agno]'") from missing

from ringfence._generated.models import CreateRequest, ExecRequestOptions
from ringfence._result import Command, CommandResult
from ringfence._sync.client import Ringfence
from ringfence._sync.sandbox import Sandbox
from ringfence.errors import NoSuchFile, NotFound, RingfenceError, SandboxEnded

__all__ = ["AgentSandbox", "ShellTools", "Skills"]

T = TypeVar("T")

# An agent that is forgotten leaves nothing for longer.
IDLE_MS = 30 * 60 * 1000
SKILLS_INSIDE = "/tmp/skills"
KNOWN_SKILL_TOOLS = {"get_skill_instructions", "get_skill_reference", "get_skill_script"}


class AgentSandbox:
    """The sandbox of an agent: made when it is first needed, made anew when it has ended, gone when this is closed.

    Options are those of `POST /v1/sandboxes`; `client` takes URL and key from the environment where none is given.
    """

    def __init__(self, client: Ringfence | None = None, **options: Unpack[CreateRequest]) -> None:
        self._client = client or Ringfence()
        self._options: CreateRequest = {"idle_ms": IDLE_MS, **options}
        self._lock = threading.RLock()
        self._held: list[Sandbox] = []
        # Also when it is forgotten, and at the end of the program.
        self._finalizer = weakref.finalize(self, _let_go, self._held, None if client else self._client)

    def __deepcopy__(self, memo: dict[int, Any]) -> AgentSandbox:
        """Copies of an agent share their sandbox."""
        return self

    def __enter__(self) -> AgentSandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the sandbox away, for good."""
        with self._lock:
            self._finalizer()

    @property
    def sandbox(self) -> Sandbox:
        with self._lock:
            if not self._finalizer.alive:
                raise RingfenceError("the sandbox of this agent is closed\n  use the agent within its block")
            if not self._held:
                self._held.append(self._client.sandboxes.create(**self._options))
            return self._held[0]

    def run(self, command: Command, **options: Unpack[ExecRequestOptions]) -> CommandResult:
        return self._in_a_living_one(lambda sandbox: sandbox.run(command, **options))

    def upload(self, source: Path, target: str) -> None:
        self._in_a_living_one(lambda sandbox: sandbox.files.upload(source, target))

    def _in_a_living_one(self, do: Callable[[Sandbox], T]) -> T:
        """Do it; in a new sandbox, once, where the old one has ended."""
        sandbox = self.sandbox
        try:
            return do(sandbox)
        except (NotFound, SandboxEnded) as error:
            if isinstance(error, NoSuchFile):
                raise
            self._forget(sandbox)
            return do(self.sandbox)

    def _forget(self, ended: Sandbox) -> None:
        with self._lock:
            if ended in self._held:
                self._held.remove(ended)


def _let_go(held: list[Sandbox], client: Ringfence | None) -> None:
    while held:
        # It ends by its own clock where the server can't be reached.
        with suppress(RingfenceError):
            held.pop().delete()
    if client is not None:
        client.close()


class ShellTools(Toolkit):
    """In place of `agno.tools.shell.ShellTools`: the same tool for the model, and the command runs in a sandbox."""

    def __init__(
        self,
        sandbox: AgentSandbox | None = None,
        *,
        cwd: str | None = None,
        timeout_ms: int | None = None,
        enable_run_shell_command: bool = True,
        all: bool = False,
        **kwargs: Any,
    ) -> None:
        if "base_dir" in kwargs:
            raise TypeError("base_dir is a directory of the host: give cwd, a directory inside")
        self.sandbox = sandbox or AgentSandbox()
        self._options: ExecRequestOptions = {}
        if cwd is not None:
            self._options["cwd"] = cwd
        if timeout_ms is not None:
            self._options["timeout_ms"] = timeout_ms
        enabled = all or enable_run_shell_command
        super().__init__(
            name="shell_tools",
            tools=[self.run_shell_command] if enabled else [],
            async_tools=[(self.arun_shell_command, "run_shell_command")] if enabled else [],
            **kwargs,
        )

    def run_shell_command(self, args: list[str], tail: int = 100) -> str:
        """Runs a shell command in a sandbox and returns the output or error.

        Args:
            args (List[str]): The command to run as a list of strings.
            tail (int): The number of lines to return from the output.

        Returns:
            str: The output of the command.
        """
        try:
            result = self.sandbox.run(args, **self._options)
        except (RingfenceError, ValueError) as error:
            return f"Error: {error}"
        if not result.ok:
            return f"Error: {_tail(result.for_model(), tail)}"
        return _tail(result.stdout, tail)

    async def arun_shell_command(self, args: list[str], tail: int = 100) -> str:
        """Runs a shell command in a sandbox and returns the output or error.

        Args:
            args (List[str]): The command to run as a list of strings.
            tail (int): The number of lines to return from the output.

        Returns:
            str: The output of the command.
        """
        return await asyncio.to_thread(self.run_shell_command, args, tail)


def _tail(text: str, lines: int) -> str:
    return "\n".join(text.split("\n")[-lines:]) if lines > 0 else ""


class Skills(AgnoSkills):
    """In place of `agno.skills.Skills`: the same tools for the model, and scripts run in a sandbox.

    A skill is copied to `/tmp/skills/NAME` inside before each of its scripts runs, without what its links lead to.
    """

    def __init__(self, loaders: list[SkillLoader], sandbox: AgentSandbox | None = None) -> None:
        self.sandbox = sandbox or AgentSandbox()
        super().__init__(loaders)

    def get_tools(self) -> list[Function]:
        """Agno's own, but for the one that would run something here."""
        tools = {tool.name: tool for tool in super().get_tools()}
        if set(tools) != KNOWN_SKILL_TOOLS:
            raise RingfenceError(
                f"this version of agno has other skill tools than are known here: {', '.join(sorted(tools))}\n"
                "  they might run on the host: use a version that pyproject.toml names"
            )
        for name, ours in (("get_skill_script", self._get_skill_script), ("get_skill_reference", self._get_skill_reference)):
            tools[name] = Function(name=name, description=tools[name].description, entrypoint=ours)
        return list(tools.values())

    def _get_skill_reference(self, skill_name: str, reference_path: str | None = None) -> str:
        """Load a reference document from a skill.

        Args:
            skill_name: The name of the skill.
            reference_path: The filename of the reference document.

        Returns:
            A JSON string with the reference content.
        """
        return self._refused(skill_name, "references") or super()._get_skill_reference(skill_name, reference_path)

    def _get_skill_script(
        self,
        skill_name: str,
        script_path: str | None = None,
        execute: bool = False,
        args: list[str] | None = None,
        timeout: int = 30,
    ) -> str:
        """Read or execute a script from a skill. It is executed in a sandbox.

        Args:
            skill_name: The name of the skill.
            script_path: The filename of the script.
            execute: If True, execute the script. If False (default), return content.
            args: Optional list of arguments to pass to the script (only used if execute=True).
            timeout: Maximum execution time in seconds (default: 30, only used if execute=True).

        Returns:
            A JSON string with either the script content or execution results.
        """
        refused = self._refused(skill_name, "scripts")
        if refused:
            return refused
        skill = self.get_skill(skill_name)
        if not execute or skill is None or script_path not in skill.scripts:
            # Reading, and everything that is an error.
            return super()._get_skill_script(skill_name, script_path, execute=False)
        told: dict[str, Any] = {"skill_name": skill_name, "script_path": script_path}
        try:
            result = self._execute(skill, script_path, args or [], timeout)
        except (RingfenceError, OSError, ValueError) as error:
            return json.dumps({"error": f"Error executing script: {error}", **told})
        if result.timed_out:
            return json.dumps({"error": f"Script execution timed out after {timeout} seconds", **told})
        told |= {"stdout": result.stdout, "stderr": result.stderr, "returncode": result.exit_code}
        if result.denials:
            told["denials"] = result.denials
        return json.dumps(told)

    def _execute(self, skill: Skill, script: str, args: list[str], timeout: int) -> CommandResult:
        inside = f"{SKILLS_INSIDE}/{re.sub(r'[^A-Za-z0-9_-]', '_', skill.name)}"
        self.sandbox.upload(Path(skill.source_path).resolve(), inside)
        path = f"{inside}/scripts/{script}"
        # Agno makes a script executable on the host; here it is made so inside.
        command = ["sh", "-c", 'chmod +x "$0" && exec "$0" "$@"', path, *map(str, args)]
        return self.sandbox.run(command, cwd=inside, timeout_ms=max(1, int(timeout)) * 1000)

    def _refused(self, skill_name: str, folder: str) -> str | None:
        """A folder of a skill that is a link leads out of it, and agno would read there."""
        skill = self.get_skill(skill_name)
        if skill is not None and (Path(skill.source_path) / folder).is_symlink():
            return json.dumps({"error": f"the {folder} of this skill are a link to elsewhere", "skill_name": skill_name})
        return None
