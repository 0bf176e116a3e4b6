"""An Agno agent whose shell runs in a sandbox: RINGFENCE_API_KEY=… OPENAI_API_KEY=… python3 examples/sdk/agent.py "what to do"

OPENAI_BASE_URL and MODEL choose another server and model. Needs `pip install 'ringfence[agno]' openai`."""

import os
import sys

from agno.agent import Agent
from agno.models.openai import OpenAIChat

from ringfence.agno import AgentSandbox, ShellTools

with AgentSandbox(workspace="agent") as sandbox:
    model = OpenAIChat(id=os.environ.get("MODEL", "gpt-4o-mini"), base_url=os.environ.get("OPENAI_BASE_URL"))
    agent = Agent(model=model, tools=[ShellTools(sandbox)], telemetry=False)
    print(agent.run(" ".join(sys.argv[1:]) or "Which files are in the workspace?").content)
