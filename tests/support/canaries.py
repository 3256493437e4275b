"""Planted secrets: made up by a seeded generator, in the surroundings and spellings they are met in."""

from __future__ import annotations

import base64
import html
import json
import quopri
import string
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple
from urllib.parse import quote

_ALNUM = string.ascii_letters + string.digits
_URLSAFE = _ALNUM + "-_"


WORDS = """
    river stone cloud tiger lemon piano ocean chair grape horse music battery staple copper meadow lantern velvet
    harbor walnut pepper saddle marble thunder candle orchid falcon
""".split()
ANYWHERE = "here it is: {} ok?|{}|send {} to me|<{}>|({})|密钥{}。|key={};|x='{}'|[{}]|\t{}\n|__{}__|🔑{}🔑|`{}`"
_LABELLED = 'API_KEY={}|"client_secret": "{}"|X-Api-Key: {}|Authorization: Bearer {}|secret_key = \'{}\''
_LABELLED += "|https://h.example/p?access_token={}&x=1|Cookie: session={}; a=b|export DEPLOY_TOKEN={}"
# What a secret needs beside it to be known for one.
WAYS = {
    "password": 'password: {}|"password": "{}"|PASSWORD={}|my password is {}|postgres://bob:{}@db.example:5432/x'
    "|--password {}|<password>{}</password>|The password for the VPN is {}|contraseña: {}|密码：{}",
    "hex": _LABELLED,
    "letters": _LABELLED + '|{"auth": "{}"}|token={}|secret: {}',
    "small letters": _LABELLED + "|token={}|secret: {}",
    "bare phone": "call me on {}|please ring us at {}|text {} today|dial {}.",
    "social": "my social is {}|her social: {}|Social number {}",
    "passphrase": 'the passphrase: {}|password={}\n|{"passphrase": "{}"}',
    "option": "mysql -u root -p{} db|sshpass -p {} ssh x|docker login -u bob -p {} r.example|sshpass -p'{}' scp a b",
    "putty": "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 4\n{}\nPrivate-MAC: 0a1b",
    "wifi": "WIFI:T:WPA;S:net;P:{};;|WIFI:S:home;T:WPA;P:{};H:true;;",
    "passcode": "passcode {}|the passcode is {}|Passcode: {}",
}


# Without their surroundings these could be any number, word, hash or name.
ONLY_LABELLED = frozenset(
    ("hex", "letters", "small letters", "bare phone", "social", "option", "wifi", "passcode", "passphrase")
)


class Canary(NamedTuple):
    kind: str
    secret: str
    text: str


class Maker:
    """Secrets of every kind that redaction promises to find by itself or behind a label."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.kinds: dict[str, Callable[[], str]] = {
            "openai": lambda: "sk-proj-" + self.some(48, _URLSAFE),
            "anthropic": lambda: "sk-ant-api03-" + self.some(60, _URLSAFE) + "AA",
            "aws": lambda: "AKIA" + self.some(16, string.ascii_uppercase + string.digits),
            "github": lambda: "ghp_" + self.some(36),
            "github-fine": lambda: f"github_pat_{self.some(22)}_{self.some(59)}",
            "slack": lambda: f"xoxb-{self.digits(12)}-{self.digits(12)}-{self.some(24)}",
            "google": lambda: "AIza" + self.some(35, _URLSAFE),
            "stripe": lambda: "sk_live_" + self.some(24),
            "huggingface": lambda: "hf_" + self.some(33) + "7",
            "npm": lambda: "npm_" + self.some(35) + "3",
            "gitlab": lambda: "glpat-" + self.some(19, _URLSAFE) + "5",
            "sendgrid": lambda: f"SG.{self.some(22, _URLSAFE)}.{self.some(43, _URLSAFE)}",
            "jwt": self.jwt,
            "private-key": self.private_key,
            "card": self.card,
            "iban": self.iban,
            "ssn": lambda: f"{self.number(100, 665)}-{self.number(10, 99)}-{self.number(1000, 9999)}",
            "email": lambda: f"{self.letters(6)}.{self.letters(7)}@{self.letters(8)}.example",
            "phone": self.phone,
            "password": lambda: self.some(6, string.ascii_letters) + self.digits(3) + "!" + self.some(3),
            "hex": lambda: self.some(31, "0123456789abcdef") + "a",
            "letters": lambda: self.some(self.number(16, 24), string.ascii_letters),
            "small letters": lambda: self.letters(self.number(19, 24)),
            "generated": lambda: self.some(self.number(24, 40)),
            "generated small": lambda: self.some(32, string.ascii_lowercase + string.digits),
            "base32": lambda: self.some(32, string.ascii_uppercase + "234567"),
            "grouped card": self.grouped_card,
            "bare phone": lambda: f"{self.number(200, 999)}{self.number(2000000, 9999999)}",
            "social": lambda: f"{self.number(100, 665)}{self.number(10, 99)}{self.number(1000, 9999)}",
            "passphrase": lambda: " ".join(self.random.sample(WORDS, self.number(4, 7))),
            "option": lambda: "S" + self.some(9) + "7",
            "putty": self.putty,
            "wifi": lambda: self.some(11) + "7",
            "passcode": lambda: self.digits(6),
        }

    def some(self, size: int, alphabet: str = _ALNUM) -> str:
        return "".join(self.random.choices(alphabet, k=size))

    def digits(self, size: int) -> str:
        return self.some(size, string.digits)

    def letters(self, size: int) -> str:
        return self.some(size, string.ascii_lowercase)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def jwt(self) -> str:
        parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": self.some(10)})
        coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
        return ".".join([*coded, self.some(43, _URLSAFE)])

    def private_key(self) -> str:
        lines = "\n".join(self.some(64, _ALNUM + "+/") for _ in range(4))
        return f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n{self.some(18)}==\n-----END RSA PRIVATE KEY-----"

    def card(self) -> str:
        start, size = self.random.choice([("4", 16), ("51", 16), ("37", 15), ("6011", 16)])
        number = with_luhn(start + self.digits(size - len(start) - 1))
        if size == 15:
            return self.random.choice([number, f"{number[:4]} {number[4:10]} {number[10:]}"])
        glue = self.random.choice(["", " ", "-"])
        return glue.join(number[i : i + 4] for i in range(0, 16, 4))

    def grouped_card(self) -> str:
        number = with_luhn("4" + self.digits(14))
        glue = self.random.choice([" - ", "_", ", ", "/", "  ", " / ", " \u2013 ", ": "])
        return glue.join(number[i : i + 4] for i in range(0, 16, 4))

    def putty(self) -> str:
        lines = "\n".join(self.some(64, _ALNUM + "+/") for _ in range(3))
        return f"{lines}\n{self.some(22)}=="

    def iban(self) -> str:
        account = self.digits(18)
        code = f"DE{98 - int(account + '131400') % 97:02d}{account}"
        return self.random.choice([code, " ".join(code[i : i + 4] for i in range(0, 22, 4))])

    def phone(self) -> str:
        area, local = self.number(200, 999), self.number(200, 999)
        return self.random.choice(
            [
                f"+49 {area} {self.number(1000000, 9999999)}",
                f"({area}) {local}-{self.number(1000, 9999)}",
                f"+1-{area}-{local}-{self.number(1000, 9999)}",
            ]
        )

    def surrounded(self, kind: str, secret: str) -> str:
        return self.random.choice(WAYS.get(kind, ANYWHERE).split("|")).replace("{}", secret)

    def canaries(self, count: int) -> Iterator[Canary]:
        kinds = list(self.kinds)
        for number in range(count):
            kind = kinds[number % len(kinds)]
            secret = self.kinds[kind]()
            yield Canary(kind, secret, self.surrounded(kind, secret))


def with_luhn(digits: str) -> str:
    """The digits and the one that makes the check come out."""
    doubled = [int(digit) * (2 - i % 2) for i, digit in enumerate(reversed(digits))]
    return digits + str(-sum(value - 9 * (value > 9) for value in doubled) % 10)


def _zero_width(text: str) -> str:
    random = Random(len(text))
    return "".join(
        ch + (random.choice("\u200b\u200c\u2060\ufeff\u00ad") if random.random() < 0.3 else "") for ch in text
    )


def _full_width(text: str) -> str:
    return "".join(chr(ord(ch) + 0xFEE0) if "!" <= ch <= "~" else ch for ch in text)


SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "zero-width": _zero_width,
    "full-width": _full_width,
    "percent": lambda text: quote(text, safe=""),
    "percent-all": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "percent-twice": lambda text: quote(quote(text, safe=""), safe=""),
    "json": lambda text: json.dumps({"m": text}),
    "json-twice": lambda text: json.dumps(json.dumps({"m": text})),
    "escapes": lambda text: "".join(f"\\u{ord(ch):04x}" if ord(ch) < 0x10000 else ch for ch in text),
    "entities": lambda text: "".join(f"&#{ord(ch)};" for ch in text),
    "html": html.escape,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "quoted-printable": lambda text: quopri.encodestring(f"{text} {'x' * 80}".encode()).decode(),
    "styled digits": lambda text: "".join(chr(0x1D7CE + int(ch)) if "0" <= ch <= "9" else ch for ch in text),
    "no-break spaces": lambda text: text.replace(" ", "\u00a0"),
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "bidi": lambda text: f"\u202a{text}\u202c",
}


def plain(text: str) -> str:
    """What is left of a text when only its letters and digits count."""
    return "".join(filter(str.isalnum, text))


def leaks(canary: Canary, spelling: str, out: str) -> bool:
    """Whether a secret, or a good part of it, is still there in the spelling it was planted in."""
    spell = SPELLINGS[spelling]
    if spelling in ("base64", "hex"):
        return spell(canary.text) in out
    if spelling in ("plain", "zero-width", "json", "bidi", "html", "crlf", "no-break spaces"):
        secret, left = plain(canary.secret), plain(out)
        return any(secret[i : i + 8] in left for i in range(max(1, len(secret) - 7)))
    return canary.secret in out or spell(canary.secret).strip() in out
