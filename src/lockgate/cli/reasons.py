"""Every reason of an assessment in words, with advice."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class ReasonText(NamedTuple):
    meaning: str
    advice: str = ""


# A test holds this against core/requests/combined_verdict.py; docs/reference/verifiers.md is written from it.
REASON_TEXTS: Mapping[str, ReasonText] = MappingProxyType(
    {
        "no-findings": ReasonText("the rules found nothing"),
        "rules": ReasonText("text that speaks to an agent was found, or an earlier step reported an injection"),
        "rules-unsure": ReasonText("something was found that the rules alone cannot judge"),
        "provider": ReasonText("the provider says so"),
        "provider-unsure": ReasonText("the provider is not sure"),
        "provider-filter": ReasonText("the provider's own filter refused the text"),
        "rules-disagree": ReasonText("the provider says safe, and cannot clear what the rules found"),
        "partly-read": ReasonText(
            "the provider says safe, and did not see everything",
            "assess a long text in parts, or raise VERIFIER_EXCERPT_CHARACTERS",
        ),
        "deadline": ReasonText("no answer in time", "raise VERIFIER_TIMEOUT_MS, or choose a faster model"),
        "network": ReasonText(
            "the endpoint cannot be reached",
            "check its address, the network and the firewall; proxy variables are not used",
        ),
        "tls": ReasonText(
            "no secure connection: the endpoint's certificate is not accepted",
            "check the certificate, and the clock of this machine; VERIFIER_CA_FILE names an authority of your own",
        ),
        "unauthorized": ReasonText(
            "the endpoint refuses the key", "check the key, and that it is meant for this endpoint and this model"
        ),
        "rate-limited": ReasonText(
            "the endpoint was asked too often, or the quota is used up", "wait, or raise its limits"
        ),
        "client-error": ReasonText(
            "the endpoint does not accept the question",
            "check the model or deployment, and the path of the endpoint",
        ),
        "server-error": ReasonText("the endpoint has a problem of its own", "try again later"),
        "redirect": ReasonText(
            "the endpoint sends us elsewhere, and the key must not travel along",
            "set the address that it sends to, if it is the right one",
        ),
        "reply-too-large": ReasonText("the reply is too large to be an answer", "is this the right endpoint?"),
        "malformed-reply": ReasonText(
            "the reply is not in this provider's format", "is this the right endpoint, and the right adapter for it?"
        ),
        "odd-answer": ReasonText("the model did not answer as asked", "choose a model that keeps to a JSON schema"),
        "refused": ReasonText("the model declined to answer", "choose a model that may judge such texts"),
        "cut-short": ReasonText("the answer was cut off", "choose a model that answers in fewer tokens"),
        "circuit-open": ReasonText(
            "the endpoint failed several times in a row and is left alone",
            "it is asked again after VERIFIER_CIRCUIT_OPEN_SEC",
        ),
        "busy": ReasonText("too many questions are under way", "try again later, or use more processes"),
        "called-in-loop": ReasonText(
            "`assess` was called on an event loop, where it cannot wait", "use `assess_async`"
        ),
        "bad-payload": ReasonText("this is not a payload", "`lockgate help verifiers` describes it"),
        "no-key": ReasonText("there is no key for this tenant", "set the adapter's key, or this tenant's own"),
        "logged-out": ReasonText("the program is not logged in", "log in with it, as the user the service runs as"),
        "replaced": ReasonText("the program is not the one that was examined", "confirm it: lockgate judge exam"),
        "budget": ReasonText("the budget for questions is spent", "a person may raise it in the configuration"),
        "internal": ReasonText("lockgate itself failed", "this is a bug in lockgate; please report it"),
    }
)
