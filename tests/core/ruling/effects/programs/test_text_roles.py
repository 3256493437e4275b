"""Programs that show text or pass it on."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "effect"),
    [
        ("cat .env", ("reads-secret", ".env")),
        ("grep -v x .env", ("reads-secret", ".env")),
        ("sed -i s/a/b/ /etc/x", ("writes-outside", "/etc/x")),
        ("sed 's/a/b/w /etc/x' a", ("writes-outside", "/etc/x")),
        ("sed '1e id' a", ("unreadable", "")),
        ("sed '$!e id' a", ("unreadable", "")),
        ("sed '/x/,/y/ s|a|id|ge' a", ("unreadable", "")),
        ("sed 'p;s1a1id1e' a", ("unreadable", "")),
        ("sed '\\,x,e id' a", ("unreadable", "")),
        ("sed '1,+2{e id\n}' a", ("unreadable", "")),
        ("sed 'p;w /etc/x' a", ("writes-outside", "/etc/x")),
        ("awk 'BEGIN{system(\"rm -rf /etc\")}'", ("deletes-outside", "/etc")),
        ("awk '{print > \"/etc/x\"}' a", ("writes-outside", "/etc/x")),
        ("env | grep -i secret", ("reads-secret", "environment")),
        ("sort -o /etc/x a", ("writes-outside", "/etc/x")),
        ("printf 'rm -rf %s' /etc | sh", ("deletes-outside", "/etc")),
        ("echo a | tr a b | sh", ("runs-decoded", "")),
        ("yq -i .a=1 x.yml", ("edits-project", "x.yml")),
        ("echo $API_KEY", ("reads-secret", "API_KEY")),
    ],
)
def test_a_command_has_this_effect(line: str, effect: tuple[str, str]) -> None:
    assert effect in read_line(line)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("grep -q x .env", "reads-secret"),
        ("grep FEATURE_FLAG .env", "reads-secret"),
        ("env | grep FEATURE", "reads-secret"),
        ("cat .env.example", "reads-secret"),
        ("sed -n 1,5p a", "edits-project"),
        ("sed 's/Tested on Python 3.7, 3.8/Tested on Python 3.9, some/' a", "unreadable"),
        ("sed '0,/^import/s##import { serve }#' a", "unreadable"),
        ("base64 -d a.b64", "runs-decoded"),
        ("head -n 5 a", "reads-secret"),
        ("wc -l .env", "reads-secret"),
    ],
)
def test_a_similar_command_has_not(line: str, kind: str) -> None:
    assert kind not in {found for found, _ in read_line(line)}


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("sed -i 's/npm.old.example/npm.new.example/g' .npmrc", "npm.new.example"),
        ("sed -i 's#registry=.*#registry=https://r.example/#' .npmrc", "r.example"),
        ("sed -i 's/npm\\.old\\.example/npm\\.new\\.example/' .npmrc", "npm.new.example"),
        ("sed -i '/strict-ssl/d' .npmrc", ".npmrc"),
    ],
)
def test_a_package_source_that_is_edited_is_told_by_its_new_host(line: str, target: str) -> None:
    assert {target for kind, target in read_line(line) if kind == "uses-package-source"} == {target}
