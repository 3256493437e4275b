"""Shared by all providers: where a question may go, how a reply is parsed, and what its status means.

Pure, like the providers: bytes and values in, values out. Nothing here raises because of what a server sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from lockgate.core.errors import InvalidConfig, quoted
from lockgate.core.questions import NoAnswer, NoAnswerReason
from lockgate.runtime.http_post import HttpReply, HttpRequest
from lockgate.runtime.loopback import is_loopback
from lockgate.runtime.strict_json import InvalidJson, JsonLimits, JsonReader

MALFORMED = NoAnswer(NoAnswerReason.MALFORMED_REPLY)
ODD = NoAnswer(NoAnswerReason.ODD_ANSWER)
REFUSED = NoAnswer(NoAnswerReason.REFUSED)
CUT_SHORT = NoAnswer(NoAnswerReason.CUT_SHORT)

# Real replies are a few levels deep. Past the interpreter's limit `json` raises, or crashes on a thread with a small
# stack, so depth is counted before parsing.
MAX_DEPTH = 32

# One narrow grammar instead of a URL parser: if two parsers disagree about `http://127.0.0.1\@elsewhere`, the key goes
# elsewhere. No user name, query, fragment, percent sign or non-ASCII letter is allowed.
_ADDRESS = re.compile(
    r"(?P<scheme>https?)://"
    r"(?P<host>[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?P<port>:[0-9]{1,5})?"
    r"(?P<path>(?:/(?!\.{1,2}(?:/|\Z))[a-z0-9._~:-]+)*)/?",
    re.IGNORECASE | re.ASCII,
)
_MODEL = re.compile(r"[!-~](?:[ -~]{0,198}[!-~])?")
_CREDENTIAL = re.compile(r"[!-~]{1,8192}")
_SECONDS = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")


def parse_address(text: str, setting: str = "base_url", *, unsafe_http: bool = False) -> str:
    """Return an address that a key may be sent to, without its last slash; raise InvalidConfig for any other.

    No error shows the text: users paste addresses with passwords and keys in them. With `unsafe_http` it may be plain
    http to another machine; then everyone on the network can read the key and every question.
    """
    parts = _ADDRESS.fullmatch(text)
    if parts is None or (parts["port"] is not None and not 0 < int(parts["port"][1:]) < 1 << 16):
        raise InvalidConfig(
            f"{setting} is not an address that questions can be sent to",
            hint="write it as https://host/path, without a user name, a query or spaces",
        )
    scheme, host = parts["scheme"].lower(), parts["host"].lower()
    if scheme == "http" and not unsafe_http and not is_loopback(host):
        raise InvalidConfig(
            f"{setting} would send everything to {quoted(host)} over plain http, for others to read",
            hint="use https; plain http is for this machine only: localhost, 127.0.0.1 or [::1]",
        )
    return f"{scheme}://{host}{parts['port'] or ''}{parts['path']}"


def check_model_name(text: str, setting: str = "model") -> str:
    if _MODEL.fullmatch(text) is None:
        raise InvalidConfig(
            f"{setting} is not a name of 1 to 200 ASCII characters: {quoted(text)}",
            hint="copy it from the provider's list of models or deployments",
        )
    return text


def bearer_header(key: str) -> tuple[str, str]:
    return "authorization", f"Bearer {check_credential(key)}"


def check_credential(key: str) -> str:
    """Return a key that a header can carry; raise InvalidConfig, which never shows the key."""
    if _CREDENTIAL.fullmatch(key) is None:
        raise InvalidConfig(
            "the key is empty or holds a character that no header can carry",
            hint="copy it again, without spaces, quotes or line breaks",
        )
    return key


def post_request(url: str, body: Mapping[str, object], *headers: tuple[str, str]) -> HttpRequest:
    """Return a POST with this JSON body, in ASCII: a lone surrogate in a text must not raise here."""
    encoded = json.dumps(body, allow_nan=False, separators=(",", ":"), default=dict).encode("ascii")
    return HttpRequest(url, (("accept", "application/json"), ("content-type", "application/json"), *headers), encoded)


def open_reply(reply: HttpReply) -> dict[str, object] | NoAnswer:
    """Return the one object in a good reply, or why there is none.

    An `error` beside an answer makes it an error: gateways pass on a partial answer when something broke.
    """
    failed = failure_from_status(reply)
    if failed is not None:
        return failed
    body = parse_json_reply(reply.body)
    return MALFORMED if body is None or body.get("error") is not None else body


def failure_from_status(reply: HttpReply) -> NoAnswer | None:
    """Return the failure that a status means; None if the body has to be read."""
    status = reply.status
    if status == 200:
        return None
    if status in (401, 403):
        return NoAnswer(NoAnswerReason.UNAUTHORIZED)
    if status == 429:
        return NoAnswer(NoAnswerReason.RATE_LIMITED, retry_after_s(reply.headers))
    if 300 <= status < 400:
        return NoAnswer(NoAnswerReason.REDIRECT)
    if 400 <= status < 500:
        return NoAnswer(NoAnswerReason.CLIENT_ERROR)
    if 500 <= status < 600:
        return NoAnswer(NoAnswerReason.SERVER_ERROR)
    return MALFORMED


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asked us to wait, in the three spellings in use; None if it did not, or not validly.

    A date is compared with the reply's own `date`, because our clock may differ. The caller sets the upper limit.
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _SECONDS.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    asked = headers.get("retry-after", "").strip()
    if _SECONDS.fullmatch(asked):
        return float(asked)
    try:
        wait = parsedate_to_datetime(asked[:100]) - parsedate_to_datetime(headers.get("date", "")[:100])
    except (TypeError, ValueError, OverflowError):  # not two dates, or one of them without a time zone
        return None
    return max(0.0, wait.total_seconds())


_READER = JsonReader(limits=JsonLimits(depth=MAX_DEPTH))


def parse_json_reply(body: bytes) -> dict[str, object] | None:
    """Return the one JSON object in a body: UTF-8, no duplicate key, no NaN, at most MAX_DEPTH deep; else None."""
    try:
        value = _READER.read(body.decode("utf-8"))
    except (UnicodeDecodeError, InvalidJson):
        return None
    return value if isinstance(value, dict) else None


def token_count(value: object) -> int:
    """Return a count of tokens, or 0 if it is not one: it is only reported, so it must not fail an answer."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else 0


def model_id(value: object) -> str:
    """Return the id of the model in a reply: empty where there is none, a mark for one that no model has."""
    if value is None:
        return ""
    return value if isinstance(value, str) and _MODEL.fullmatch(value) else "?"


def is_encodable(value: str) -> bool:
    """Return whether the text has no lone surrogates, which JSON can spell but nothing can encode."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
