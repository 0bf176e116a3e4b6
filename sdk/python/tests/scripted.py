"""A model that says what a test has written down: the OpenAI API on loopback."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScriptedModel:
    """Calls each tool in turn, then says `done`. `answers` are what it was told by the tools; `tools` what it was offered."""

    def __init__(self, *calls: tuple[str, dict[str, Any]]) -> None:
        self._calls = calls
        self.answers: list[str] = []
        self.tools: dict[str, Any] = {}

    def __enter__(self) -> ScriptedModel:
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps(model.reply(asked)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def reply(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.answers = [str(one["content"]) for one in asked["messages"] if one["role"] == "tool"]
        self.tools = {one["function"]["name"]: one["function"] for one in asked.get("tools", [])}
        message: dict[str, Any] = {"role": "assistant", "content": "done"}
        if len(self.answers) < len(self._calls):
            name, arguments = self._calls[len(self.answers)]
            function = {"name": name, "arguments": json.dumps(arguments)}
            call = {"id": f"call_{len(self.answers)}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        return {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
