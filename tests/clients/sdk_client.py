"""The PyPI `mcp` client: the same steps without a model. argv: transport, target, key, steps as JSON; with `ask` the client
can ask its person, and each step begins with what that person says."""

import asyncio
import json
import os
import subprocess
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import ElicitResult

from model import filled


async def main():
    transport, target, key, steps = sys.argv[1:5]
    steps, asks = json.loads(steps), "ask" in sys.argv[5:]
    questions, says = [], [None]

    async def person(_, params):
        questions.append(params.message)
        return ElicitResult(action=says[0], content={"allow": True} if says[0] == "accept" else None)
    if transport == "stdio":
        opened = stdio_client(StdioServerParameters(command=target, args=["mcp"], env=dict(os.environ)))
    else:
        opened = over_http(target, {"Authorization": f"Bearer {key}"})
    async with opened as streams:
        async with ClientSession(streams[0], streams[1], **({"elicitation_callback": person} if asks else {})) as session:
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            results = []
            for *said, tool, arguments in steps:
                says[:] = said
                result = await session.call_tool(tool, filled(arguments, results, approve))
                data = result.model_dump(by_alias=True)
                text = data["content"][0]["text"]
                assert json.loads(text) == data["structuredContent"], text
                results.append(text)
            print(json.dumps({"tools": tools, "results": results, "questions": questions}))


def approve(action):
    subprocess.run([os.environ["RINGFENCE"], "actions", "approve", action], check=True, stdout=subprocess.DEVNULL)


def over_http(target, headers):
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client
    return streamable_http_client(target, http_client=create_mcp_http_client(headers=headers))


asyncio.run(main())
