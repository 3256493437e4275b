"""Settings that a command hands to a running service: those that switch a protection off, and images from elsewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lockgate.core.ruling.effects.programs.url_hosts import host_of

if TYPE_CHECKING:
    from lockgate.core.ruling.effects.shell_walk import Walk

MOST_SETTING = 2_000

_PROTECTS = (
    r"(?:protect\w*|encrypt\w*|tls|ssl|mtls|https|auth|authentication|authorization|oauth2?|login|rbac|audit\w*|backups?"
    r"|network_?polic(?:y|ies)|polic(?:y|ies)|firewall|waf|mfa|2fa|sso|guard\w*|verif(?:y|ication)|validat\w*|admission"
    r"|seccomp|apparmor|selinux|sandbox\w*|point_?in_?time_?recovery|versioning|run_?as_?non_?root"
    r"|read_?only_?root_?filesystem|signatures?|scan\w*)"
)
_OFF = r"(?:false|no|off|none|disabled|disable|0)"
_ON = r"(?:true|yes|on|enabled|1)"
_IS = r"[\"']?\s*[=:]\s*[\"']?"
# A name of parts joined by dots, dashes, underscores or capitals; the part that protects may stand anywhere in it.
_NAME = r"(?:[A-Za-z0-9]{1,30}[._-]){0,6}"
_WEAKENS = re.compile(
    rf"(?i)(?<![\w.-])(?P<off>{_NAME}(?:[a-z]{{1,20}}(?=(?-i:[A-Z])))?{_PROTECTS}(?:[._-]?(?:enabled?|required|period|policy|mode))?)"
    rf"{_IS}{_OFF}(?![\w.])"
    rf"|(?<![\w.-])(?P<days>{_NAME}backup[._-]?retention[._-]?(?:period|days))(?:{_IS}|\s+)0(?![\w.])"
    rf"|(?<![\w.-])(?P<on>{_NAME}(?:privileged|allow_?privilege_?escalation|host_?(?:network|pid|ipc)|insecure\w*|anonymous\w*"
    rf"|publicly_?accessible|public(?:_?access)?|skip_?(?:final_?snapshot|tls_?verify|verify)|(?:{_PROTECTS}[._-])?disabled?"
    rf"|disable_?{_PROTECTS}|auth\w*[._-]anonymous[._-]enabled)){_IS}{_ON}(?![\w.])"
    rf"|(?<![\w.-])(?P<user>{_NAME}run_?as_?user){_IS}0(?![\w.])"
    r"|(?P<open>(?<![\w.])0\.0\.0\.0/0|::/0|\ballUsers\b|\ballAuthenticatedUsers\b|\bpublic-read(?:-write)?\b|\binternet-facing\b)"
)
# `disabled=true` alone, as in `feature.disabled=true`, protects nothing.
_SWITCH = re.compile(rf"(?i)(?:^|[._-]){_PROTECTS}[._-]disabled?$|^disable")
_FLAGS = re.compile(
    r"--(?:no-verify(?:-\w+)*|insecure[\w-]*|allow-unauthenticated|publicly-accessible|skip-final-snapshot"
    r"|disable-(?!rollback|warnings?|prompts?|interactive|telemetry|color|progress|colou?r)[\w-]+"
    r"|skip-[\w-]*(?:check|checks|verify|verification|validation)"
    r"|no-(?:enable-)?[\w-]*(?:protection|encrypted|encryption|auth\w*|audit\w*|backup|logging|versioning|tls|ssl))"
    r"(?:=(?:true|1))?"
)
_IMAGE = re.compile(
    r"(?i)(?<![\w-])(?:[\w-]{1,40}\.){0,5}(?:image|images|repository|registry|image_?repository|image_?registry)[\"']?\s*[=:]\s*[\"']?"
    r"((?:[a-z0-9][\w.-]{0,80}(?::\d{1,5})?/)*[a-z0-9][\w.-]{0,80})"
)


def note_settings(walk: Walk, arguments: list[str]) -> None:
    """Note what the settings among these arguments weaken, and where the images that they name come from."""
    for index, argument in enumerate(arguments):
        plain = walk.plain(argument)[:MOST_SETTING]
        if plain[:2] == "--":
            if _FLAGS.fullmatch(plain):
                walk.add("disables-check", plain.partition("=")[0])
                continue
            following = arguments[index + 1] if index + 1 < len(arguments) else ""
            if plain in ("--image", "--registry"):
                note_image_source(walk, walk.plain(following))
            elif plain == "--backup-retention-period" and following == "0":
                walk.add("disables-check", plain)
        if "=" in plain or ":" in plain or plain in _WORDS:
            _note_setting(walk, plain.removeprefix("--"))


_WORDS = frozenset("allUsers allAuthenticatedUsers public-read public-read-write internet-facing".split())


def _note_setting(walk: Walk, plain: str) -> None:
    for match in _WEAKENS.finditer(plain):
        name = match.group() if match.group("open") else match.group(match.lastgroup or 0)
        if match.group("on") and name.lower().endswith(("disabled", "disable")) and not _SWITCH.search(name):
            continue
        walk.add("disables-check", name)
    for match in _IMAGE.finditer(plain):
        note_image_source(walk, match.group(1))


def note_image_source(walk: Walk, image: str) -> None:
    """Note that a service runs an image: its host tells, or its owner and name where there is no host."""
    first, slash, _ = image.partition("/")
    if "." in first and not re.fullmatch(r"v?\d[\w.-]*", first):
        host = host_of(image) if "://" in image else first.partition(":")[0].lower()
        if not walk.project.has_host(host):
            walk.add("changes-service", host)
    elif slash:
        walk.add("changes-service", re.sub(r"(?:@sha256:\w+|:[\w.-]+)$", "", image))


def note_container_images(walk: Walk, words: list[str]) -> None:
    """Note the images that `kubectl set image` gives containers: `web=host.example/shop/web:2`."""
    for word in words:
        name, equals, image = walk.plain(word).partition("=")
        if name and equals:
            note_image_source(walk, image)
