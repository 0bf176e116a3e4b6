#!/usr/bin/env python3
"""A scripted model on loopback, in the words of four APIs: Anthropic messages, OpenAI responses and chat completions,
and Gemini. It plays a list of tool calls, one a turn, then says "done", and writes down what the client answered.

usage: model.py SCRIPT LOG    prints its port; SCRIPT is [{"tool": NAME, "input": {...}}, ...]
"""
import http.server
import json
import re
import sys
import threading

SCRIPT = json.load(open(sys.argv[1]))
LOG = open(sys.argv[2], "a", buffering=1)
LOCK = threading.Lock()


def log(kind, **facts):
    with LOCK:
        LOG.write(json.dumps({"kind": kind, **facts}) + "\n")


def text_of(content):
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(text_of(part) for part in content)
    if isinstance(content, dict):
        for key in ("text", "output", "content"):
            if key in content:
                return text_of(content[key])
        return json.dumps(content)
    return str(content)


def filled(step, results):
    """With the number of the process that was started last, where the script says so."""
    if step["input"].get("process") != "last":
        return step
    told = re.findall(r'process\\*"\s*:\s*(\d+)', "\n".join(results))
    return {**step, "input": {**step["input"], "process": int(told[-1]) if told else 0}}


class Model(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        log("get", path=self.path)
        self.answer({"data": [], "models": []})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            asked = json.loads(body)
        except ValueError:
            return self.answer({})
        path = self.path.split("?")[0]
        if path.endswith("/messages"):
            return self.anthropic(asked)
        if path.endswith("/responses"):
            return self.openai_responses(asked)
        if path.endswith("/chat/completions"):
            return self.chat(asked)
        if "GenerateContent" in path or "generateContent" in path:
            return self.gemini(asked, "stream" in path)
        if "countTokens" in path or "count_tokens" in path:
            return self.answer({"totalTokens": 1, "input_tokens": 1})
        log("post", path=self.path)
        return self.answer({})

    # The step that a conversation has come to: as many as it has results of tools.
    def step(self, results, tools):
        at = len(results)
        if results:
            log("result", step=at - 1, text=results[-1])
        if not tools:
            return None, at
        if at == 0:
            log("tools", names=tools)
        if at < len(SCRIPT):
            step = filled(SCRIPT[at], results)
            log("call", step=at, **step)
            return step, at
        return None, at

    def anthropic(self, asked):
        results = [
            text_of(part.get("content", ""))
            for message in asked.get("messages", [])
            if isinstance(message.get("content"), list)
            for part in message["content"]
            if part.get("type") == "tool_result"
        ]
        tools = [tool.get("name") for tool in asked.get("tools", [])]
        call, at = self.step(results, tools)
        if call:
            block = {"type": "tool_use", "id": f"toolu_{at:04}", "name": call["tool"], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(call["input"])}
        else:
            block = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": "done"}
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": f"msg_{at}", "type": "message", "role": "assistant", "model": asked.get("model", "x"),
                   "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        reason = "tool_use" if call else "end_turn"
        if not asked.get("stream"):
            content = dict(block, input=call["input"]) if call else {"type": "text", "text": "done"}
            return self.answer(dict(message, content=[content], stop_reason=reason))
        self.events([
            ("message_start", {"message": message}),
            ("content_block_start", {"index": 0, "content_block": block}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}),
            ("message_stop", {}),
        ])

    def openai_responses(self, asked):
        items = asked.get("input") if isinstance(asked.get("input"), list) else []
        results = [text_of(item.get("output", "")) for item in items
                   if item.get("type") in ("function_call_output", "custom_tool_call_output")]
        tools = []
        for tool in asked.get("tools", []):
            tools.append(tool.get("name") or tool.get("type"))
            for inner in tool.get("tools") or []:
                tools.append(f"{tool.get('name')}/{inner.get('name')}")
        call, at = self.step(results, tools)
        if call:
            item = {"type": "function_call", "id": f"fc_{at}", "call_id": f"call_{at}",
                    "name": call["tool"], "arguments": json.dumps(call["input"]), "status": "completed"}
            if "namespace" in call:
                item["namespace"] = call["namespace"]
        else:
            item = {"type": "message", "id": f"msg_{at}", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "done", "annotations": []}]}
        response = {"id": f"resp_{at}", "object": "response", "status": "in_progress", "output": []}
        usage = {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2}
        self.events([
            ("response.created", {"response": response}),
            ("response.output_item.added", {"output_index": 0, "item": item}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": dict(response, status="completed", output=[item], usage=usage)}),
        ])

    def chat(self, asked):
        results = [text_of(message.get("content", "")) for message in asked.get("messages", [])
                   if message.get("role") == "tool"]
        tools = [tool["function"]["name"] for tool in asked.get("tools") or []]
        call, at = self.step(results, tools)
        if call:
            delta = {"role": "assistant", "tool_calls": [{
                "index": 0, "id": f"call_{at}", "type": "function",
                "function": {"name": call["tool"], "arguments": json.dumps(call["input"])}}]}
        else:
            delta = {"role": "assistant", "content": "done"}
        chunk = {"id": f"c{at}", "object": "chat.completion.chunk", "created": 0, "model": asked.get("model", "x")}
        reason = "tool_calls" if call else "stop"
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if not asked.get("stream"):
            choice = {"index": 0, "message": delta, "finish_reason": reason}
            return self.answer(dict(chunk, object="chat.completion", choices=[choice], usage=usage))
        self.events([
            (None, dict(chunk, choices=[{"index": 0, "delta": delta, "finish_reason": None}])),
            (None, dict(chunk, choices=[{"index": 0, "delta": {}, "finish_reason": reason}], usage=usage)),
        ], end="data: [DONE]\n\n")

    def gemini(self, asked, stream):
        results = [json.dumps(part["functionResponse"].get("response"))
                   for content in asked.get("contents", []) for part in content.get("parts", [])
                   if "functionResponse" in part]
        tools = [one["name"] for tool in asked.get("tools") or [] for one in tool.get("functionDeclarations", [])]
        call, at = self.step(results, tools)
        # Questions of the client's own, which it asks again and again until the answer is in this form.
        asks_itself = "json" in json.dumps(asked.get("generationConfig", {}).get("responseMimeType", ""))
        answer = json.dumps({"reasoning": "scripted", "model_choice": "flash", "complexity_score": 1,
                             "complexity_reasoning": "scripted", "next_speaker": "user"}) if asks_itself else "done"
        part = {"functionCall": {"name": call["tool"], "args": call["input"]}} if call else {"text": answer}
        answer = {"candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
                  "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}}
        if not stream:
            return self.answer(answer)
        self.events([(None, answer)])

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def events(self, events, end=""):
        text = ""
        for name, value in events:
            if name:
                text += f"event: {name}\n"
                value = {"type": name, **value}
            text += f"data: {json.dumps(value)}\n\n"
        body = (text + end).encode()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
