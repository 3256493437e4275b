"""Credentials are removed in whatever case, with a key that was cut off, and from addresses."""

from __future__ import annotations

import re

import pytest
from canaries import Maker, plain

from lockgate.core.redaction.redact import redact


def test_letters_drawn_at_random_are_secrets_behind_a_label_and_keys_anywhere() -> None:
    """One in a hundred may read like words."""
    maker = Maker(13)
    for kind in ("letters", "small letters", "generated", "generated small", "base32"):
        made = [maker.kinds[kind]() for _ in range(200)]
        left = [secret for secret in made if secret in redact(maker.surrounded(kind, secret)).text]
        assert len(left) <= 2, (kind, left)


@pytest.mark.parametrize("spell", [str.upper, str.lower, str.swapcase])
def test_a_key_in_the_wrong_case_is_still_a_key(spell: object) -> None:
    maker = Maker(6)
    for kind in ("openai", "anthropic", "aws", "github", "slack", "stripe", "gitlab"):
        secret = maker.kinds[kind]()
        assert plain(spell(secret)) not in plain(redact(f"use {spell(secret)} now").text), kind  # type: ignore[operator]


@pytest.mark.parametrize(
    "text",
    [
        "https://alice:s3cr3t@host.example/path",
        "https://alice:p/w0rd@host.example",
        "postgres://svc:Zx9!kk@db.example:5432/app",
        "https://ghp_0123456789abcdefghijABCDEFGHIJ456789@code.example/x.git",
        "redis://:hunter2@cache.example:6379/0",
        "HTTPS://ALICE:S3CR3T@HOST.EXAMPLE/",
    ],
)
def test_no_user_or_password_stays_in_an_address(text: str) -> None:
    out = redact(text).text
    assert re.search(r"s3cr3t|w0rd|zx9|ghp_|hunter2", out, re.IGNORECASE) is None
    assert "host.example" in out.lower() or "db." in out or "code." in out or "cache." in out


def test_a_private_key_goes_whole_cut_off_at_either_end_or_not_ended() -> None:
    body = "\n".join(Maker(8).some(64) for _ in range(3))
    begin, end = "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"
    for text in (f"{begin}\n{body}\n{end}", f"{begin}\n{body}", f"{body}\n{end}", f"{begin} {body} {end}"):
        for spelled in (text, text.replace("\n", "\\n"), text.replace("\n", "\r\n"), text.replace("\n", "\n> ")):
            out = redact(f"Here:\n{spelled}\nand that was it").text
            assert not any(line[:20] in out for line in body.split("\n"))
            assert "Here:" in out
            assert "and that was it" in out
