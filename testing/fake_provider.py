#!/usr/bin/env python3
"""A model provider on loopback, as faithful as its tests need and as broken as they like: Anthropic's Messages,
OpenAI's Chat Completions and Responses, streamed and whole.

What it answers comes from a plan: a list of steps that is used up one request at a time, the last one for ever.
A step is made by says(), calls() and friends, replay() for recorded bytes, or fails(). misbehave() makes any of
them go wrong on the way. Every request is kept, with whether its connection was left by the client.

    fake = FakeProvider()
    fake.plan(calls(("deploy", {"branch": "main"})), says("Deployed."))
    … base_url = fake.anthropic_url or fake.openai_url …

On its own it serves on a port and says "Hello from the fake" to everybody:

    testing/fake_provider.py [PORT]
"""

import http.server
import json
import pathlib
import socket
import struct
import sys
import threading
import urllib.parse

KEY = "sk-test-canary-5b2f"


# ---- what it says ---------------------------------------------------------------------------


class Step:
    """What the model says, whatever API asks; and how the answer goes wrong, if it does."""

    def __init__(self, text="", tools=(), stop=None, usage=None, thinking=None, refusal=None, cut_input=None):
        self.text, self.tools, self.stop = text, list(tools), stop
        self.usage = {"input": 20, "output": 10, **(usage or {})}
        self.thinking, self.refusal, self.cut_input = thinking, refusal, cut_input
        self.fault = None          # (kind, argument)
        self.status, self.headers, self.body = 200, {}, None
        self.recorded = None       # (content type, bytes, bytes a write)


def says(text, **more):
    return Step(text, **more)


def calls(*tools, text="", **more):
    """Tools as (name, input) or (name, input, call id)."""
    return Step(text, tools, **more)


def fails(status, error=None, headers=None, body=None):
    step = Step()
    step.status, step.headers = status, dict(headers or {})
    step.body = body if body is not None else error
    return step


def replay(folder, chunk=None):
    """The recorded answer in a folder of tests/models/wire."""
    folder = pathlib.Path(folder)
    meta = json.loads((folder / "response.meta.json").read_text())
    stream = folder / "response.sse"
    step = Step()
    step.status, step.headers = meta["status"], dict(meta["headers"])
    data = (stream if stream.exists() else folder / "response.json").read_bytes()
    step.recorded = (step.headers.pop("content-type"), data, chunk or meta.get("chunk"))
    if meta.get("end") == "reset":
        step.fault = ("reset", None)
    return step


def misbehave(step, kind, argument=None):
    """kind: hold (before the first byte), stall (after that many events), truncate (ends inside a chunk), eof (ends
    cleanly after that many events), reset (after that many events), garbage, duplicate (that event twice), hang_up
    (no answer at all), html (a page instead), linger (stays open behind the last event)."""
    step.fault = (kind, argument)
    return step


# ---- how it is written ----------------------------------------------------------------------


def pieces(text, size=7):
    return [text[i:i + size] for i in range(0, len(text), size)] or [""]


def sse(data, event=None):
    head = f"event: {event}\n" if event else ""
    body = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return f"{head}data: {body}\n\n".encode()


class Anthropic:
    path = "/v1/messages"

    @staticmethod
    def call_id(number, index):
        return f"toolu_{number:02}{index:02}"

    @staticmethod
    def stop(step):
        return step.stop or ("refusal" if step.refusal else "tool_use" if step.tools else "end_turn")

    @staticmethod
    def usage(step):
        return {"input_tokens": step.usage["input"], "output_tokens": step.usage["output"],
                "cache_read_input_tokens": step.usage.get("cache_read", 0),
                "cache_creation_input_tokens": step.usage.get("cache_write", 0)}

    def blocks(self, step, number):
        blocks = []
        if step.thinking:
            blocks.append({"type": "thinking", "thinking": step.thinking, "signature": "sig+/=" + "A" * 8})
        if step.text or step.refusal:
            blocks.append({"type": "text", "text": step.text or step.refusal})
        for index, tool in enumerate(step.tools):
            blocks.append({"type": "tool_use", "id": tool[2] if len(tool) > 2 else self.call_id(number, index),
                           "name": tool[0], "input": tool[1]})
        return blocks

    def whole(self, step, number, model):
        return {"id": f"msg_{number:04}", "type": "message", "role": "assistant", "model": model,
                "content": self.blocks(step, number), "stop_reason": self.stop(step), "stop_sequence": None,
                "usage": self.usage(step)}

    def stream(self, step, number, model):
        whole = self.whole(step, number, model)
        start = {**whole, "content": [], "stop_reason": None}
        start["usage"] = {**whole["usage"], "output_tokens": 1}
        yield sse({"type": "message_start", "message": start}, "message_start")
        yield sse({"type": "ping"}, "ping")
        for index, block in enumerate(whole["content"]):
            begin, deltas = dict(block), []
            if block["type"] == "text":
                begin["text"] = ""
                deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
            elif block["type"] == "thinking":
                begin.update(thinking="", signature="")
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            elif block["type"] == "tool_use":
                begin["input"] = {}
                text = json.dumps(block["input"], ensure_ascii=False)
                last = block is whole["content"][-1]
                if step.cut_input and last:
                    text = step.cut_input
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *pieces(text)]]
            yield sse({"type": "content_block_start", "index": index, "content_block": begin}, "content_block_start")
            for delta in deltas:
                yield sse({"type": "content_block_delta", "index": index, "delta": delta}, "content_block_delta")
            yield sse({"type": "content_block_stop", "index": index}, "content_block_stop")
        yield sse({"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
                   "usage": {"output_tokens": step.usage["output"]}}, "message_delta")
        yield sse({"type": "message_stop"}, "message_stop")

    @staticmethod
    def error(status, text):
        kinds = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
                 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}
        return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": text}}

    @staticmethod
    def key_of(headers):
        return headers.get("x-api-key") or OpenAi.key_of(headers)  # both are taken


class OpenAi:
    @staticmethod
    def call_id(number, index):
        return f"call_{number:02}{index:02}"

    @staticmethod
    def error(status, text):
        kind = {401: "authentication_error", 429: "tokens"}.get(status, "server_error" if status >= 500
                                                                else "invalid_request_error")
        return {"error": {"message": text, "type": kind, "param": None, "code": None}}

    @staticmethod
    def key_of(headers):
        value = headers.get("authorization") or ""
        return value[len("Bearer "):] if value.startswith("Bearer ") else None


class Chat(OpenAi):
    path = "/v1/chat/completions"

    @staticmethod
    def finish(step):
        reasons = {"max_tokens": "length", "end_turn": "stop", "tool_use": "tool_calls"}
        return reasons.get(step.stop, step.stop) or ("tool_calls" if step.tools else "stop")

    @staticmethod
    def usage(step):
        return {"prompt_tokens": step.usage["input"], "completion_tokens": step.usage["output"],
                "total_tokens": step.usage["input"] + step.usage["output"],
                "prompt_tokens_details": {"cached_tokens": step.usage.get("cache_read", 0)}}

    def calls(self, step, number):
        made = []
        for index, tool in enumerate(step.tools):
            text = json.dumps(tool[1], ensure_ascii=False)
            if step.cut_input and index == len(step.tools) - 1:
                text = step.cut_input
            made.append({"id": tool[2] if len(tool) > 2 else self.call_id(number, index), "type": "function",
                         "function": {"name": tool[0], "arguments": text}})
        return made

    def whole(self, step, number, model):
        message = {"role": "assistant", "content": step.text or None, "refusal": step.refusal}
        if step.tools:
            message["tool_calls"] = self.calls(step, number)
        return {"id": f"chatcmpl-{number}", "object": "chat.completion", "created": 1, "model": model,
                "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish(step)}],
                "usage": self.usage(step)}

    def stream(self, step, number, model):
        def chunk(delta, reason=None, **more):
            return sse({"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": model,
                        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}],
                        "usage": None, **more})
        yield chunk({"role": "assistant", "content": "" if step.text else None, "refusal": None})
        for field, text in (("content", step.text), ("refusal", step.refusal)):
            for piece in pieces(text) if text else []:
                yield chunk({field: piece})
        for index, call in enumerate(self.calls(step, number)):
            function = call["function"]
            yield chunk({"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]})
            for piece in pieces(function["arguments"]):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, self.finish(step))
        yield sse({"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": 1, "model": model,
                   "choices": [], "usage": self.usage(step)})
        yield sse("[DONE]")


class Responses(OpenAi):
    path = "/v1/responses"

    def items(self, step, number):
        items = []
        if step.thinking:
            items.append({"id": f"rs_{number}", "type": "reasoning", "encrypted_content": "gAAAA+/=",
                          "summary": [{"type": "summary_text", "text": step.thinking}]})
        if step.text or step.refusal:
            part = ({"type": "refusal", "refusal": step.refusal} if step.refusal else
                    {"type": "output_text", "text": step.text, "annotations": [], "logprobs": []})
            items.append({"id": f"msg_{number}", "type": "message", "role": "assistant", "status": "completed",
                          "content": [part]})
        for index, tool in enumerate(step.tools):
            text = json.dumps(tool[1], ensure_ascii=False)
            if step.cut_input and index == len(step.tools) - 1:
                text = step.cut_input
            items.append({"id": f"fc_{number}_{index}", "type": "function_call", "status": "completed",
                          "call_id": tool[2] if len(tool) > 2 else self.call_id(number, index), "name": tool[0],
                          "arguments": text})
        return items

    def whole(self, step, number, model):
        cut = step.stop == "max_tokens"
        return {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": model,
                "status": "incomplete" if cut else "completed", "error": None,
                "incomplete_details": {"reason": "max_output_tokens"} if cut else None, "instructions": None,
                "metadata": {}, "parallel_tool_calls": True, "temperature": 1, "tool_choice": "auto", "tools": [],
                "top_p": 1, "output": self.items(step, number),
                "usage": {"input_tokens": step.usage["input"], "output_tokens": step.usage["output"],
                          "total_tokens": step.usage["input"] + step.usage["output"],
                          "input_tokens_details": {"cached_tokens": step.usage.get("cache_read", 0)},
                          "output_tokens_details": {"reasoning_tokens": 0}}}

    def stream(self, step, number, model):
        count = iter(range(10_000))

        def event(kind, **more):
            return sse({"type": kind, "sequence_number": next(count), **more}, kind)
        whole = self.whole(step, number, model)
        start = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        yield event("response.created", response=start)
        yield event("response.in_progress", response=start)
        for index, item in enumerate(whole["output"]):
            begin = {**item}
            if item["type"] == "message":
                begin.update(content=[], status="in_progress")
            elif item["type"] == "function_call":
                begin.update(arguments="", status="in_progress")
            yield event("response.output_item.added", output_index=index, item=begin)
            where = {"item_id": item["id"], "output_index": index}
            if item["type"] == "message":
                part, spot = item["content"][0], {**where, "content_index": 0}
                field = "refusal" if part["type"] == "refusal" else "text"
                name = "refusal" if field == "refusal" else "output_text"
                more = {} if field == "refusal" else {"logprobs": []}
                yield event("response.content_part.added", **spot, part={**part, field: ""})
                for piece in pieces(part[field]):
                    yield event(f"response.{name}.delta", **spot, delta=piece, **more)
                yield event(f"response.{name}.done", **spot, **{field: part[field]}, **more)
                yield event("response.content_part.done", **spot, part=part)
            elif item["type"] == "function_call":
                for piece in pieces(item["arguments"]):
                    yield event("response.function_call_arguments.delta", **where, delta=piece)
                yield event("response.function_call_arguments.done", **where, arguments=item["arguments"],
                            name=item["name"])
            yield event("response.output_item.done", output_index=index, item=item)
        yield event(f"response.{whole['status']}", response=whole)


APIS = {api.path: api for api in (Anthropic(), Chat(), Responses())}


def events_of(path, step):
    """How many events that API has for a step."""
    return len(list(APIS[path].stream(step, 1, "")))


# ---- the server -----------------------------------------------------------------------------


class Asked:
    """A request that came."""

    def __init__(self, path, headers, body):
        self.path, self.headers, self.raw = path, headers, body
        self.json = json.loads(body)
        self.left = threading.Event()     # the client closed its end before the answer was whole


class Gone(Exception):
    """The client left, or the answer ends here."""


class FakeProvider:
    def __init__(self, key=KEY, port=0):
        self.key = key                    # that it asks for; None: any or none
        self.asked = []
        self._steps = [says("Hello from the fake.")]
        self._lock = threading.Lock()
        self._gate = threading.Event()
        self._stopping = threading.Event()
        self.connections = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 0

            def setup(self):
                super().setup()
                self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                outer.connections += 1

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.asked = None
                try:
                    outer._answer(self, body)
                except (Gone, OSError) as end:
                    self.close_connection = True
                    if self.asked and not isinstance(end, Gone):
                        self.asked.left.set()

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                pass  # clients that leave are what some tests are about

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.anthropic_url = f"http://127.0.0.1:{self.port}"
        self.openai_url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def plan(self, *steps):
        with self._lock:
            self._steps = list(steps)
            self.asked = []
            self._gate.clear()

    def open_gate(self):
        """Lets answers go on that hold or stall."""
        self._gate.set()

    def requests(self):
        with self._lock:
            return list(self.asked)

    def stop(self):
        self._stopping.set()
        self._gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def _take(self, handler, body):
        request = Asked(handler.path, {name.lower(): value for name, value in handler.headers.items()}, body)
        handler.asked = request
        with self._lock:
            self.asked.append(request)
            number = len(self.asked)
            step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        return request, number, step

    def _answer(self, handler, body):
        api = APIS.get(urllib.parse.urlsplit(handler.path).path)  # a proxy is asked for whole URLs
        if api is None:
            return self._send(handler, 404, {}, {"error": {"message": f"no route {handler.path}"}})
        request, number, step = self._take(handler, body)
        if self.key is not None and api.key_of(request.headers) != self.key:
            wrong = api.key_of(request.headers)
            return self._send(handler, 401, {}, api.error(401, f"invalid x-api-key: {wrong}"))
        kind, argument = step.fault or (None, None)
        if kind == "hang_up":
            raise Gone
        if kind == "hold":
            self._wait(handler, request)
        if kind == "html":
            return self._send(handler, argument or 200, {}, b"<html>sign in</html>", "text/html")
        if step.recorded:
            return self._replay(handler, request, step)
        if step.status != 200:
            error = step.body if step.body is not None else "no reason"
            error = api.error(step.status, error) if isinstance(error, str) else error
            return self._send(handler, step.status, step.headers, error)
        model = request.json.get("model", "")
        if not request.json.get("stream"):
            return self._send(handler, 200, {}, api.whole(step, number, model))
        return self._stream(handler, request, list(api.stream(step, number, model)), kind, argument)

    @staticmethod
    def _send(handler, status, headers, body, content_type="application/json"):
        data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(data)

    def _wait(self, handler, request):
        """Until the gate opens, or the client leaves."""
        handler.connection.settimeout(0.02)
        while not self._gate.is_set() and not self._stopping.is_set():
            try:
                if handler.connection.recv(1, socket.MSG_PEEK) == b"":
                    raise ConnectionError
            except (TimeoutError, BlockingIOError):
                continue
            except OSError:
                request.left.set()
                raise
        handler.connection.settimeout(None)

    @staticmethod
    def _reset(handler):
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        handler.connection.close()
        raise Gone

    @staticmethod
    def _head(handler, content_type, headers):
        handler.send_response(200)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Transfer-Encoding", "chunked")
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()

    @staticmethod
    def _chunk(handler, data):
        handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _stream(self, handler, request, events, kind, argument):
        self._head(handler, "text/event-stream; charset=utf-8", {})
        broken_at = argument if argument is not None else len(events) // 2
        for index, event in enumerate(events):
            if index == broken_at:
                if kind == "stall":
                    self._wait(handler, request)
                elif kind == "eof":
                    break
                elif kind == "reset":
                    self._reset(handler)
                elif kind == "truncate":
                    handler.wfile.write(f"{len(event):x}\r\n".encode() + event[:len(event) // 2])
                    raise Gone
                elif kind == "garbage":
                    self._chunk(handler, b"data: {\"type\": \x00\xff nonsense\n\n")
                elif kind == "duplicate":
                    self._chunk(handler, event)
            self._chunk(handler, event)
        if kind == "linger":
            self._wait(handler, request)
        handler.wfile.write(b"0\r\n\r\n")

    def _replay(self, handler, request, step):
        content_type, data, size = step.recorded
        if "event-stream" not in content_type:
            return self._send(handler, step.status, step.headers, data, content_type)
        self._head(handler, content_type, step.headers)
        for at in range(0, len(data), size or len(data)):
            self._chunk(handler, data[at:at + (size or len(data))])
        if step.fault and step.fault[0] == "reset":
            self._reset(handler)
        handler.wfile.write(b"0\r\n\r\n")


if __name__ == "__main__":
    fake = FakeProvider(key=None, port=int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(f"anthropic {fake.anthropic_url}\nopenai {fake.openai_url}", flush=True)
    threading.Event().wait()
