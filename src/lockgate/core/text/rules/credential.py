"""Rules on credentials, and on text that asks for them."""

from __future__ import annotations

from functools import partial

from lockgate.core.text.rules.phrases import phrase
from lockgate.core.text.rules.rule import Rule, Scope

_rule = partial(Rule, family="credential", scope=Scope.RELATED, owasp="LLM02:2026, ASI03")

CREDENTIAL_RULES: tuple[Rule, ...] = (
    _rule(
        id="credential:private-key",
        pattern=r"-----BEGIN (?:(?:RSA|DSA|EC|OPENSSH|PGP|ENCRYPTED) )?PRIVATE KEY(?: BLOCK)?-----",
        what="the header of a private key",
        why="a private key in an argument is an identity leaving the machine",
        hit="-----BEGIN OPENSSH PRIVATE KEY-----",
        miss="-----BEGIN PUBLIC KEY-----",
    ),
    _rule(
        id="credential:ssh-key-file",
        pattern=r"\.ssh/(?:id_|identity|config\b|\*)|\bid_(?:rsa|dsa|ecdsa|ed25519)\b",
        what="the path of a private login key",
        why="reading the file is the first half of stealing the login",
        hit="cat ~/.ssh/id_ed25519",
        miss="ssh build.example.net uptime",
    ),
    _rule(
        id="credential:key-store-file",
        pattern=r"\.aws/(?:credentials|config)|\bapplication_default_credentials\.json|\.azure/(?:accesstokens|msal)|\.kube/config"
        r"|\.docker/config\.json|/\.netrc\b|\.git-credentials\b|/\.pgpass\b|/\.pypirc\b|/\.npmrc\b|\.vault-token\b|\bterraform\.tfstate\b",
        what="the path of a file in which tools keep their credentials",
        why="one file holds the keys of a whole account",
        hit="cp ~/.aws/credentials /tmp/c",
        miss="aws s3 ls",
    ),
    _rule(
        id="credential:read-dotenv",
        pattern=r"\b(?:cat|less|head|tail|grep|cp|mv|base64|xxd|strings|scp|get-content|gc)\s+(?:[^\s;|&]+\s+){0,4}[^\s;|&]*"
        r"\.env(?:\.(?:local|prod|production|dev))?(?:[\s\"');|&>]|$)",
        what="a command that reads a file of environment settings",
        why="projects keep their passwords and keys in it",
        hit="cat ./app/.env | head",
        miss="cat ./app/environment.md",
    ),
    _rule(
        id="credential:dump-environment",
        # Not the end of a name, `bots/.env | wc`. A path may lead to the program, whatever it begins with.
        pattern=r"(?:\bprintenv|(?:^|[^\w.-])(?:env|export\s+-p|declare\s+-x))\s+[|>]|/proc/(?:self|\d+)/environ\b",
        scope=Scope.ARGUMENTS,
        what="a command that passes the whole environment on",
        why="keys are handed to agents through the environment",
        hit="printenv | tee /tmp/e",
        miss="env PYTHONPATH=src python -m pytest",
    ),
    _rule(
        id="credential:system-accounts",
        pattern=r"/etc/(?:shadow|gshadow|sudoers|master\.passwd|krb5\.keytab)\b|\bntds\.dit\b|\breg\s+save\s+hklm\\+(?:sam|system)",
        what="the system's password and privilege files",
        why="hashes taken from here are cracked elsewhere",
        hit="sudo cat /etc/shadow",
        miss="cat /etc/hostname",
    ),
    _rule(
        id="credential:metadata-service",
        pattern=r"\b169\.254\.169\.254\b|\bmetadata\.google\.internal\b|\b100\.100\.100\.200\b|/latest/meta-data/iam\b|\[fd00:ec2::254\]",
        what="the address of a cloud machine's metadata service",
        why="a single fetch from inside the machine returns the machine's own credentials",
        hit="curl http://169.254.169.254/latest/meta-data/",
        miss="curl http://192.168.1.254/status",
    ),
    _rule(
        id="credential:browser-store",
        pattern=r"\b(?:logins\.json|key[34]\.db|cookies\.sqlite|wallet\.dat)\b"
        r"|[\\/]default[\\/](?:login data|cookies)\b"
        r"|\bsecurity\s+(?:dump-keychain|find-(?:generic|internet)-password)|\bcmdkey\s+/list|\bmimikatz\b|\blazagne\b",
        what="a browser's or system's store of passwords, or a tool that empties it",
        why="saved logins open every account the user has",
        hit="cp ~/.mozilla/firefox/x.default/logins.json /tmp",
        miss="cp ~/.mozilla/firefox/x.default/bookmarks.html /tmp",
    ),
    _rule(
        id="credential:cloud-key",
        pattern=r"\b(?-i:(?:AKIA|ASIA)[0-9A-Z]{16})\b|\b(?-i:AIza[0-9A-Za-z_-]{35})",
        what="the shape of a cloud access key",
        why="a key in an argument is about to leave",
        hit="aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
        miss="aws_access_key_id = os.environ[KEY_NAME]",
    ),
    _rule(
        id="credential:code-host-token",
        pattern=r"\b(?-i:gh[pousr]_[A-Za-z0-9]{36})|\b(?-i:github_pat_[A-Za-z0-9_]{22})|\b(?-i:glpat-[A-Za-z0-9_-]{20})"
        r"|\b(?-i:npm_[A-Za-z0-9]{36})|\b(?-i:pypi-AgEI[A-Za-z0-9_-]{20})",
        what="the shape of a code host's or package index's token",
        why="with it the attacker publishes code under the owner's name",
        hit="git clone https://ghp_" + "0a1B" * 9 + "@example.net/r.git",
        miss="git clone https://example.net/ghp_tools.git",
    ),
    _rule(
        id="credential:service-key",
        pattern=r"\b(?-i:sk-(?:ant-|proj-|svcacct-|or-)?[A-Za-z0-9_]{20})|\b(?-i:xox[abeoprs]-[A-Za-z0-9-]{10})"
        r"|\b(?-i:[sr]k_(?:live|test)_[0-9A-Za-z]{16})|\b(?-i:hf_[A-Za-z]{30})",
        what="the shape of a model provider's, chat or payment service's key",
        why="a key in an argument is about to leave",
        hit="export KEY=sk-proj-" + "Ab3" * 8,
        miss="the sk-learn package has moved",
    ),
    _rule(
        id="credential:authorization-header",
        pattern=r"\bauthorization[\"']?\s?[:=]\s?[\"']?(?:bearer|basic|token)\s+[a-z0-9._~+/=-]{16}",
        what="an authorization header with its value",
        why="the header alone logs its sender in",
        hit="curl -H 'Authorization: Bearer 0123456789abcdef0123' https://api.example.net/",
        miss="curl -H 'Authorization: Bearer $T' https://api.example.net/",
    ),
    _rule(
        id="credential:address-with-password",
        pattern=r"://[\w.%+-]+:[^\s/:@\"'<>\{\}\[\]$]{3,60}@[\w.-]{3}",
        what="an address with a user name and password in it",
        why="the password travels wherever the address is copied",
        hit="postgres://app:hunter22@db.example.net/main",
        miss="postgres://db.example.net:5432/main",
    ),
    _rule(
        id="credential:recovery-words",
        pattern=phrase(
            "enter|send|share|give|paste|submit|forward",
            3,
            "(?:seed|recovery|mnemonic|backup) (?:phrase|words)"
            "|(?:one time|verification|2fa|mfa|otp|authentication) (?:code|passcode|pin)",
        ),
        what="asks for a recovery phrase or a one-time code",
        why="these are the two secrets that open an account even when its password is safe",
        hit="forward the verification code you receive to this number",
        miss="the verification step of the build takes a minute",
        phrase=True,
    ),
)
