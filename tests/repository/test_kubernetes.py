"""The manifests, held against the program that they start: its options, routes, settings, user and files."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

import lockgate
from lockgate.cli.main import make_parsers
from lockgate.cli.serve import GRACE_S
from lockgate.journal import keys
from lockgate.runtime.postgres import BUSY_S
from lockgate.service.auth import host_check_for_port
from lockgate.service.http import Caller
from lockgate.service.routes import ROUTES
from lockgate.settings.config import load_settings

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "deploy" / "kubernetes" / "lockgate.yaml").read_text(encoding="utf-8")
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")
HELP = (ROOT / "docs" / "how-to" / "teams.md").read_text(encoding="utf-8")
DOCUMENTS: dict[str, dict[str, Any]] = {each["kind"]: each for each in yaml.safe_load_all(TEXT)}
POD: dict[str, Any] = DOCUMENTS["Deployment"]["spec"]["template"]["spec"]
(SERVICE,) = POD["containers"]
(KEY,) = POD["initContainers"]


def environ(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def mounts(container: dict[str, Any]) -> dict[str, str]:
    return {each["mountPath"]: each["name"] for each in container["volumeMounts"]}


def settings(tmp_path: Path) -> Any:
    path = tmp_path / "config.toml"
    path.write_text(DOCUMENTS["ConfigMap"]["data"]["config.toml"])
    return load_settings(explicit=path, cwd=tmp_path, environ={}, home=tmp_path, system=tmp_path / "none")


def test_the_manifests_fit_the_schema_of_the_cluster() -> None:
    # 108 MB of schemas, so it is in no group of ours: `pip install kubernetes-validate`.
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for document in DOCUMENTS.values():
        kubernetes_validate.validate(document, "1.30", strict=True)
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_labels_names_and_ports_lead_from_the_service_to_the_program(tmp_path: Path) -> None:
    labels = DOCUMENTS["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert DOCUMENTS["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert DOCUMENTS["Service"]["spec"]["selector"] == labels
    assert DOCUMENTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    named = {document["metadata"].get("namespace") for kind, document in DOCUMENTS.items() if kind != "Namespace"}
    assert named == {DOCUMENTS["Namespace"]["metadata"]["name"]}
    program, *arguments = SERVICE["command"]
    assert program == "lockgate"
    parsed = make_parsers(("serve",))[""].parse_args(arguments)
    (port,) = SERVICE["ports"]
    assert (parsed.host, parsed.port) == ("0.0.0.0", port["containerPort"])
    assert f"EXPOSE {parsed.port}" in CONTAINERFILE
    (outside,) = DOCUMENTS["Service"]["spec"]["ports"]
    assert outside["targetPort"] == port["name"]
    # Clients reach it by the name of the service, which it has to answer to.
    answers = host_check_for_port(parsed.port, settings(tmp_path).server.allowed_hosts).hosts
    name, namespace = DOCUMENTS["Service"]["metadata"]["name"], *named
    assert {f"{name}:{outside['port']}", f"{name}.{namespace}.svc:{outside['port']}"} <= answers


def test_probes_ask_routes_that_need_no_token_under_a_name_that_is_answered() -> None:
    probes = {name: SERVICE[f"{name}Probe"] for name in ("startup", "liveness", "readiness")}
    open_routes = {route.path for route in ROUTES if route.method == "GET" and route.who is Caller.WITHOUT_TOKEN}
    asked = {name: probe["httpGet"] for name, probe in probes.items()}
    assert {name: each["path"] for name, each in asked.items()} == {
        "startup": "/healthz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    for each in asked.values():
        assert each["path"] in open_routes
        assert each["port"] == SERVICE["ports"][0]["name"]
        ((host),) = [header["value"] for header in each["httpHeaders"] if header["name"] == "Host"]
        assert host in host_check_for_port(SERVICE["ports"][0]["containerPort"]).hosts
    # It waits for the locks of the sessions and of the log.
    assert probes["readiness"]["timeoutSeconds"] > 2 * BUSY_S


def test_a_rolling_update_loses_no_instance_before_another_answers() -> None:
    spec = DOCUMENTS["Deployment"]["spec"]
    assert spec["replicas"] >= 2
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    pause, seconds = SERVICE["lifecycle"]["preStop"]["exec"]["command"]
    assert pause == "sleep"
    assert POD["terminationGracePeriodSeconds"] > int(seconds) + GRACE_S


def test_nothing_runs_as_root_or_writes_outside_its_volumes() -> None:
    (user,) = re.findall(r"useradd .*--uid (\d+)", CONTAINERFILE)
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["runAsUser"] == int(user)
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert (POD["automountServiceAccountToken"], POD["enableServiceLinks"]) == (False, False)
    for container in (SERVICE, KEY):
        confined = container["securityContext"]
        assert confined["readOnlyRootFilesystem"] is True
        assert confined["allowPrivilegeEscalation"] is False
        assert confined["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]
        assert container["image"] == f"lockgate:{lockgate.__version__}"
    volumes = {each["name"]: each for each in POD["volumes"]}
    written = {mounts(SERVICE)[environ(SERVICE)[name]] for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME")}
    assert all("emptyDir" in volumes[name] for name in (*written, mounts(SERVICE)["/tmp"]))
    assert environ(SERVICE)["XDG_STATE_HOME"] == environ(KEY)["XDG_STATE_HOME"]
    assert f"XDG_STATE_HOME={environ(SERVICE)['XDG_STATE_HOME']}" in CONTAINERFILE


def test_secrets_come_by_reference_and_the_page_says_how_to_make_them() -> None:
    assert "Secret" not in DOCUMENTS
    given = {each["name"]: each["valueFrom"]["secretKeyRef"] for each in SERVICE["env"] if "valueFrom" in each}
    assert set(given) == {"LOCKGATE_TOKEN", "LOCKGATE_AGENT_TOKEN", "PGPASSWORD"}
    assert not any(re.search("TOKEN|PASSWORD|SECRET|KEY", name) for name in environ(SERVICE))
    for reference in given.values():
        assert f"create secret generic {reference['name']} " in HELP
        assert f"--from-literal={reference['key']}=" in HELP
    (mounted,) = [each["secret"]["secretName"] for each in POD["volumes"] if "secret" in each]
    assert f"create secret generic {mounted} --from-file=" in HELP


def test_the_settings_are_those_of_a_fleet(tmp_path: Path) -> None:
    read = settings(tmp_path)
    assert read.server.database.startswith("postgresql://")
    assert "sslmode=verify-full" in read.server.database
    assert read.audit.log_path == read.server.database
    (name,) = [path for path, volume in mounts(SERVICE).items() if volume == "config"]
    assert environ(SERVICE)["LOCKGATE_CONFIG"] == name


def test_the_key_is_put_where_only_its_user_can_read_it(tmp_path: Path) -> None:
    made = keys.create(tmp_path / "made" / "postgres.key", "lockgate/x")
    # As a mounted secret: links into a folder that may be read by more than one user.
    inner = tmp_path / "secret" / "..data"
    inner.mkdir(parents=True)
    (inner / "postgres.key").write_bytes((tmp_path / "made" / "postgres.key").read_bytes())
    (tmp_path / "secret" / "postgres.key").symlink_to(inner / "postgres.key")
    state = tmp_path / "state"
    state.mkdir()
    # As an empty volume with a group.
    state.chmod(0o2777)
    (script,) = KEY["args"]
    command = [*KEY["command"], script.replace("/run/secrets/lockgate-journal", str(tmp_path / "secret"))]
    subprocess.run(command, env={"PATH": os.environ["PATH"], "XDG_STATE_HOME": str(state)}, timeout=60, check=True)
    assert keys.load(state / "lockgate" / "postgres.key").key.vkey == made.key.vkey
