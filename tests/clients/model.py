"""A scripted model on loopback, in the four wire formats that the clients speak.

It calls one tool after the other, whatever came of the last one, and keeps what it was offered and what it was told. It
decides which step is next by counting the results in the conversation, so that a repeated request does no harm.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FINISHED = "The script has finished."


ACTION = "$ACTION"


def filled(arguments, results, approve):
    """The arguments of a step, with the action that an earlier call was told to wait for. A person approves it first."""
    if ACTION not in arguments.values():
        return arguments
    found = [match for text in results for match in re.findall(r"\baction\W+([0-9a-f]{32})\b", text)]
    if found:
        approve(found[-1])
    return {name: found[-1] if value == ACTION and found else value for name, value in arguments.items()}


class Model:
    def __init__(self, steps, approve):
        self.steps = steps
        self.approve = approve
        self.tools = set()
        self.results = []
        self.lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.reply(200, "application/json", b'{"data":[],"models":[]}')

            def do_POST(self):
                length = int(self.headers.get("content-length") or 0)
                raw = self.rfile.read(length)
                try:
                    body = json.loads(raw or b"{}")
                except ValueError:
                    body = {}
                kind, text = model.answer(self.path, body)
                self.reply(200, kind, text.encode())

            def reply(self, status, kind, data):
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path, body):
        path = path.split("?")[0]
        if path.endswith("/messages/count_tokens"):
            return "application/json", json.dumps({"input_tokens": 1})
        if path.endswith("/messages"):
            return self.anthropic(body)
        if path.endswith("/responses"):
            return self.responses(body)
        if "generateContent" in path or "GenerateContent" in path:
            return self.gemini(path, body)
        if path.endswith("/chat/completions"):
            return self.chat(body)
        if path.endswith(":countTokens"):
            return "application/json", json.dumps({"totalTokens": 1})
        return "application/json", "{}"

    def next(self, offered, results):
        """The step to take; none where there is nothing to call or the script is over."""
        with self.lock:
            self.tools.update(offered)
            if len(results) > len(self.results):
                self.results = results
        wanted = [name for name in offered if name.endswith("sandbox_run")]
        if not wanted or len(results) >= len(self.steps):
            return None
        tool, arguments = self.steps[len(results)]
        full = [name for name in offered if name.endswith(tool)]
        return (full[0], filled(arguments, results, self.approve)) if full else None

    def anthropic(self, body):
        offered = [tool["name"] for tool in body.get("tools", []) if "name" in tool]
        results = []
        for message in body.get("messages", []):
            content = message.get("content")
            for part in content if isinstance(content, list) else []:
                if part.get("type") == "tool_result":
                    results.append(flat(part.get("content")))
        step = self.next(offered, results)
        if step:
            block = {"type": "tool_use", "id": f"toolu_{len(results)}", "name": step[0], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step[1])}
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": FINISHED}
        why = "tool_use" if step else "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": f"msg_{len(results)}", "type": "message", "role": "assistant", "model": body.get("model"),
                   "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            whole = dict(block, input=step[1]) if step else {"type": "text", "text": FINISHED}
            return "application/json", json.dumps(dict(message, content=[whole], stop_reason=why))
        return "text/event-stream", events([
            ("message_start", {"type": "message_start", "message": message}),
            ("content_block_start", {"type": "content_block_start", "index": 0, "content_block": block}),
            ("content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}),
            ("content_block_stop", {"type": "content_block_stop", "index": 0}),
            ("message_delta", {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None},
                               "usage": {"output_tokens": 1}}),
            ("message_stop", {"type": "message_stop"}),
        ])

    def responses(self, body):
        spaces = {}
        for tool in body.get("tools", []):
            if tool.get("type") == "namespace":
                for inner in tool.get("tools", []):
                    spaces[tool["name"] + "/" + inner["name"]] = (tool["name"], inner["name"])
            elif "name" in tool:
                spaces[tool["name"]] = (None, tool["name"])
        results = [flat(item.get("output")) for item in body.get("input", [])
                   if isinstance(item, dict) and item.get("type") == "function_call_output"]
        step = self.next(list(spaces), results)
        if step:
            space, name = spaces[step[0]]
            item = {"type": "function_call", "id": f"fc_{len(results)}", "call_id": f"call_{len(results)}",
                    "name": name, "arguments": json.dumps(step[1]), "status": "completed"}
            if space:
                item["namespace"] = space
        else:
            item = {"type": "message", "role": "assistant", "id": f"m_{len(results)}", "status": "completed",
                    "content": [{"type": "output_text", "text": FINISHED, "annotations": []}]}
        response = {"id": f"resp_{len(results)}", "object": "response", "status": "completed", "output": [item],
                    "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
                              "input_tokens_details": {"cached_tokens": 0},
                              "output_tokens_details": {"reasoning_tokens": 0}}}
        begun = dict(response, status="in_progress", output=[])
        return "text/event-stream", events([
            ("response.created", {"type": "response.created", "response": begun}),
            ("response.output_item.added", {"type": "response.output_item.added", "output_index": 0, "item": item}),
            ("response.output_item.done", {"type": "response.output_item.done", "output_index": 0, "item": item}),
            ("response.completed", {"type": "response.completed", "response": response}),
        ])

    def gemini(self, path, body):
        offered = [one["name"] for tool in body.get("tools", []) for one in tool.get("functionDeclarations", [])]
        results = [flat(part["functionResponse"].get("response")) for content in body.get("contents", [])
                   for part in content.get("parts", []) if "functionResponse" in part]
        step = self.next(offered, results)
        part = {"functionCall": {"name": step[0], "args": step[1]}} if step else {"text": FINISHED}
        answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                  "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
        if "stream" in path.lower():
            return "text/event-stream", f"data: {json.dumps(answer)}\r\n\r\n"
        if not offered:
            # Side questions want JSON of their own form: any object will do.
            answer["candidates"][0]["content"]["parts"] = [{"text": "{}"}]
        return "application/json", json.dumps(answer)

    def chat(self, body):
        offered = [tool["function"]["name"] for tool in body.get("tools", []) if "function" in tool]
        results = [flat(one.get("content")) for one in body.get("messages", []) if one.get("role") == "tool"]
        step = self.next(offered, results)
        if step:
            call = {"index": 0, "id": f"call_{len(results)}", "type": "function",
                    "function": {"name": step[0], "arguments": json.dumps(step[1])}}
            delta, why = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
        else:
            delta, why = {"role": "assistant", "content": FINISHED}, "stop"
        head = {"id": f"c{len(results)}", "object": "chat.completion.chunk", "created": 1, "model": body.get("model")}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not body.get("stream"):
            message = {"role": "assistant", "content": FINISHED}
            return "application/json", json.dumps(dict(
                head, object="chat.completion", usage=usage,
                choices=[{"index": 0, "message": message, "finish_reason": "stop"}]))
        chunks = [dict(head, choices=[{"index": 0, "delta": delta, "finish_reason": None}]),
                  dict(head, choices=[{"index": 0, "delta": {}, "finish_reason": why}], usage=usage)]
        return "text/event-stream", "".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + "data: [DONE]\n\n"


def events(pairs):
    return "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in pairs)


def flat(content):
    """All the text in a tool's result, whatever it is wrapped in."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(flat(one) for one in content)
    if isinstance(content, dict):
        if isinstance(content.get("text"), str):
            return content["text"]
        return "\n".join(flat(one) for one in content.values())
    return "" if content is None else str(content)
