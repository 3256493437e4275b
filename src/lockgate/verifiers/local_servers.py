"""Which model servers answer on this machine, and with which models: a suggestion for an exam, and nothing more.

Any program can listen on a port, so what answers here is neither trusted nor asked until a person has it examined.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from typing import NamedTuple

from lockgate.core.errors import InvalidConfig
from lockgate.settings.model_names import LOCAL, resolve_model

# Each with the port that its documentation names; all of them list their models as OpenAI does.
SERVERS = (("Ollama", 11434), ("LM Studio", 1234), ("llama.cpp", 8080), ("vLLM", 8000))
_WAIT_S, _MOST_BYTES, _MOST_MODELS = 0.5, 1 << 18, 20
# Ollama passes these on to machines of its maker.
_ELSEWHERE = ("-cloud", ":cloud")


class LocalServer(NamedTuple):
    """What listens on a port, by the program that usually does, and the names under which its models can judge."""

    program: str
    port: int
    judges: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.program} seems to answer on port {self.port}"


def find_local_servers(servers: Sequence[tuple[str, int]] = SERVERS) -> list[LocalServer]:
    """Return the servers that answer now with at least one model that stays on this machine."""
    found = [LocalServer(program, port, tuple(_judges_at(port))[:_MOST_MODELS]) for program, port in servers]
    return [server for server in found if server.judges]


def _judges_at(port: int) -> Iterator[str]:
    with suppress(OSError, HTTPException, ValueError, TypeError, KeyError, RecursionError):
        for row in json.loads(_read(port))["data"]:
            name = f"{LOCAL}:{port}/{row['id']}"
            with suppress(InvalidConfig):
                if resolve_model(name).endpoint and not name.endswith(_ELSEWHERE):
                    yield name


def _read(port: int) -> bytes:
    with closing(HTTPConnection("127.0.0.1", port, timeout=_WAIT_S)) as connection:
        connection.request("GET", "/v1/models")
        reply = connection.getresponse()
        return reply.read(_MOST_BYTES) if reply.status == 200 else b""
