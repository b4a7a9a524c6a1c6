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
        sessions[session] = _read(path.read_text(encoding="utf-8"), path.name, session, faults)
    for session, (place, text) in _packed(data).items():
        if session not in sessions:
            sessions[session] = _read(text, place, session, faults)
    system_file = data / f"system{_SUFFIX}"
    system = _read(system_file.read_text(encoding="utf-8"), system_file.name, SYSTEM, faults)
    return Logs(sessions, system, faults)


def _packed(data: pathlib.Path) -> dict[str, tuple[str, str]]:
    """What the index says of packs: id → where, and the text there."""
    found = {}
    packs = {}
    index = data / "index.ckpt"
    for line in index.read_text(encoding="utf-8").splitlines() if index.exists() else ():
        row = json.loads(line)
        session = row.get("session", {}).get("id", row.get("id"))
        found.pop(session, None)  # a later part takes the place of an earlier one
        if "packed" not in row:
            continue
        name = f"{row['packed']['pack']:010}.jsonl"
        if name not in packs:
            path = data / "packs" / name
            packs[name] = path.read_bytes() if path.exists() else b""
        begin = row["packed"]["at"]
        found[session] = (f"{name}@{begin}", packs[name][begin:begin + row["bytes"]].decode())
    return found


def parse(line: str) -> Record:
    record = Record(json.loads(line))
    record.line = line
    return record


def _read(text: str, place: str, log: str, faults: list[str]) -> list[Record]:
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        faults.append(f"{place}: ends within a line")
    records = []
    chain = first_chain(log)
    for number, line in enumerate(lines, 1):
        try:
            record = parse(line)
        except ValueError as error:
            faults.append(f"{place}:{number}: no JSON: {error}")
            break
        chain = next_chain(chain, line)
        if record["seq"] != number:
            faults.append(f"{place}:{number}: seq is {record['seq']}")
        if record["chain"] != chain:
            faults.append(f"{place}:{number}: the chain is broken")
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
