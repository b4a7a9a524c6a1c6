"""What the server under test runs: agents on scripts, and tools that count outside of it.

Each message says "go", which starts a turn; each turn ends with "<agent>: <latest result>", so that
the log shows whether an accepted result reached the model.
"""
import json
import pathlib

# A program that leaves a line for each time it runs, then takes a moment: time to be killed in.
_COUNT = 'printf "%s %s %s\\n" "$ROUSE_TOOL" "$ROUSE_SESSION_ID" "$ROUSE_CALL_ID" >> "$0"; ' \
         '/bin/sleep 0.03; echo "counted $ROUSE_CALL_ID"'

ONCE = ("count_once", "count_asked")  # not idempotent: never twice
MANY = "count_many"                   # idempotent: may run again after a crash


def _on(when: dict, call=(), say: str = "", delay_ms: int = 0) -> dict:
    entry = {"when": when, "repeat": True}
    if call:
        entry["call"] = [{"tool": tool, "input": input_} for tool, input_ in call]
    if say:
        entry["say"] = say
    if delay_ms:
        entry["delay_ms"] = delay_ms
    return entry


_GO = {"user": "go"}


def _after(tool: str) -> dict:
    return {"tool_result": tool}


def _child(agent: str, **more) -> tuple[str, dict]:
    return "start_session", {"agent": agent, "message": "go, child", **more}


# agent → (what its model does on each message, its tools)
_AGENTS = {
    "one": ([_on(_GO, [("ask", {"n": 1})])], "ask", ["ask"]),
    "two": ([_on(_GO, [("ask", {}), ("confirm", {})])], "confirm", ["ask", "confirm"]),
    "chain": ([_on(_GO, [("ask", {})]), _on(_after("ask"), [("confirm", {})])], "confirm",
              ["ask", "confirm"]),
    "slow": ([_on(_GO, say="slow: done", delay_ms=200)], None, []),
    "slowly": ([_on(_GO, [("ask", {})], delay_ms=60)], "ask", ["ask"]),
    "brief": ([_on(_GO, [("brief", {})])], "brief", ["brief"]),
    "timer": ([_on(_GO, [("wait_until", {"seconds": 0.2})])], "wait_until", ["wait_until"]),
    "count": ([_on(_GO, [("count_once", {})])], "count_once", ["count_once"]),
    "tally": ([_on(_GO, [("count_many", {})])], "count_many", ["count_many"]),
    "steps": ([_on(_GO, [("count_many", {})], delay_ms=30),
               _on(_after("count_many"), [("count_once", {})], delay_ms=30)], "count_once",
              ["count_many", "count_once"]),
    "mixed": ([_on(_GO, [("count_once", {}), ("ask", {})])], "ask", ["count_once", "ask"]),
    "careful": ([_on(_GO, [("count_asked", {})])], "count_asked", ["count_asked"]),
    "parent": ([_on(_GO, [_child("one")])], "start_session", ["start_session"]),
    "family": ([_on(_GO, [_child("slow"), _child("count")])], "start_session", ["start_session"]),
    "sender": ([_on(_GO, [_child("slow", wait=False)])], "start_session", ["start_session"]),
}

AGENTS = tuple(_AGENTS)

_TOOLS = """
[[tools]]
name = "ask"
kind = "external"
description = "Asks somebody"

[[tools]]
name = "confirm"
kind = "external"
description = "Asks somebody else"

[[tools]]
name = "brief"
kind = "external"
description = "Asks somebody who is soon gone"
timeout = "{brief_ms}ms"
"""

_COUNTER = """
[[tools]]
name = "{name}"
kind = "exec"
command = ["/bin/sh", "-c", {program}, {file}]
idempotent = {idempotent}
approval = "{approval}"
"""


class World:
    """A configuration in a directory of its own."""

    def __init__(self, directory: pathlib.Path, *, brief_ms: int = 250, limits: str = ""):
        directory.mkdir(parents=True, exist_ok=True)
        self.config = directory / "rouse.toml"
        self.counters = directory / "counters"
        self.counters.touch()
        text = [limits, _TOOLS.format(brief_ms=brief_ms)]
        for name in (*ONCE, MANY):
            text.append(_COUNTER.format(name=name, program=json.dumps(_COUNT),
                                        file=json.dumps(str(self.counters)),
                                        idempotent=json.dumps(name == MANY),
                                        approval="always" if name == "count_asked" else "never"))
        for name, (entries, last, tools) in _AGENTS.items():
            script = directory / f"{name}.jsonl"
            entries = list(entries)
            if last:
                delay_ms = 100 if name == "slowly" else 0
                entries.append(_on(_after(last), say=f"{name}: {{{{result}}}}", delay_ms=delay_ms))
            script.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
            text.append(f'\n[[agents]]\nname = "{name}"\nmodel = "scripted:{script}"\n'
                        f"tools = {json.dumps(tools)}\n")
        self.config.write_text("".join(text))

    def runs(self) -> list[tuple[str, str, str]]:
        """(tool, session, call) for each time that a counting tool ran."""
        lines = self.counters.read_text().splitlines()
        return [tuple(line.split(" ")) for line in lines]
