"""Reads the logs of a data directory that nobody has open (docs/log_format.md).

A reader of its own, from the documentation alone, so that a mistake in the server's reader does not
hide one in its writer.
"""
import hashlib
import json
import pathlib

_SUFFIX = ".messages.jsonl"
SYSTEM = "_system"


class Record(dict):
    """A record with its line. The line is what is on disk, byte for byte."""
    line: str

    @property
    def seq(self) -> int:
        return self["seq"]

    @property
    def kind(self) -> str:
        return self["kind"]


class Logs:
    """All sessions of a directory: id → records, and the system log."""

    def __init__(self, sessions: dict[str, list[Record]], system: list[Record],
                 faults: list[str] = ()):
        self.sessions = sessions
        self.system = system
        self.faults = list(faults)

    def boots(self) -> list[Record]:
        return [record for record in self.system if record.kind == "boot.started"]

    def deleted(self) -> set[str]:
        return {record["session_id"] for record in self.system if record.kind == "session.deleted"}


def read_logs(data: pathlib.Path) -> Logs:
    faults = []
    sessions = {}
    for path in sorted((data / "sessions").glob(f"*{_SUFFIX}")):
        session = path.name.removesuffix(_SUFFIX)
        sessions[session] = _read(path, session, faults)
    system = _read(data / f"system{_SUFFIX}", SYSTEM, faults)
    return Logs(sessions, system, faults)


def parse(line: str) -> Record:
    record = Record(json.loads(line))
    record.line = line
    return record


def _read(path: pathlib.Path, log: str, faults: list[str]) -> list[Record]:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        faults.append(f"{path.name}: ends within a line")
    records = []
    chain = first_chain(log)
    for number, line in enumerate(lines, 1):
        try:
            record = parse(line)
        except ValueError as error:
            faults.append(f"{path.name}:{number}: no JSON: {error}")
            break
        chain = next_chain(chain, line)
        if record["seq"] != number:
            faults.append(f"{path.name}:{number}: seq is {record['seq']}")
        if record["chain"] != chain:
            faults.append(f"{path.name}:{number}: the chain is broken")
            chain = record["chain"]
        records.append(record)
    return records


def first_chain(log: str) -> str:
    return hashlib.sha256(log.encode()).hexdigest()[:32]


def next_chain(before: str, line: str) -> str:
    body = line[:line.rindex(',"chain"')]
    return hashlib.sha256((before + body).encode()).hexdigest()[:32]


def relink(log: str, records: list[Record]) -> list[Record]:
    """Numbers and chains records anew: a forged log that only its meaning gives away."""
    linked = []
    chain = first_chain(log)
    for seq, record in enumerate(records, 1):
        fields = {"seq": seq, **{k: v for k, v in record.items() if k not in ("seq", "chain")}}
        line = json.dumps({**fields, "chain": ""}, separators=(",", ":"), ensure_ascii=False)
        chain = next_chain(chain, line)
        linked.append(parse(line.removesuffix('""}') + f'"{chain}"}}'))
    return linked


def text_of(content) -> str:
    """What a person reads in content: a string, or blocks."""
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or [])
