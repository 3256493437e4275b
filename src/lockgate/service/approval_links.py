"""One-time links to a held call: signed, for one question and one target, until the question ends.

The link stands behind the `#` of the page's address: no server and no preview of a chat program sees it. The page
sends it in a POST, shows the call, and gets a ticket with which the call can be answered for some minutes. What counts
is one answer: after it neither the link nor a ticket is worth anything. The key is made from the person's token, so
`lockgate token --rotate` ends all links. A link for one person is also signed with that person's own token, where there
is one: taking it away ends these links.
"""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from collections.abc import Callable
from typing import NamedTuple

MAX_LINK = 1_000
TICKET_S = 900.0


class LinkClaim(NamedTuple):
    """What a link says: which question, whom it was sent to, the person it stands for if any, and until when."""

    id: str
    target: str
    person: str
    until_s: float


class ApprovalLinks:
    """Makes links and tickets, and reads those that it made."""

    def __init__(self, token: Callable[[], str], own_token: Callable[[str], str] = lambda _: "") -> None:
        self._token, self._own_token = token, own_token

    def make(self, claim: LinkClaim, purpose: str = "link") -> str:
        """Return the claim as a signed text; `purpose` is in the signature, so that a link is no ticket."""
        body = urlsafe_b64encode(json.dumps(claim).encode("ascii"))
        return f"{body.decode('ascii')}.{self._sign(purpose, body, claim.person)}"

    def read(self, text: str, now_s: float, purpose: str = "link") -> LinkClaim | None:
        """Return the claim if the signature is ours and its time has not passed."""
        body, _, signature = text.partition(".")
        if not text.isascii():
            return None
        try:
            claim = LinkClaim(*json.loads(urlsafe_b64decode(body)))
            # The claim is not believed yet: it only says whose key must have signed it.
            signed = self._sign(purpose, body.encode("ascii"), claim.person)
        except (BadBase64, ValueError, TypeError, RecursionError):
            return None
        return claim if hmac.compare_digest(signed, signature) and now_s < claim.until_s else None

    def _sign(self, purpose: str, body: bytes, person: str) -> str:
        key = hmac.digest(self._token().encode("ascii"), b"lockgate approval link/1", "sha256")
        if own := self._own_token(person):
            key = hmac.digest(key, own.encode("ascii"), "sha256")
        return hmac.new(key, purpose.encode("utf-8", "surrogatepass") + b"\0" + body, "sha256").hexdigest()
