"""Settings that weaken a service."""

from __future__ import annotations

import pytest
from command_effects import read_line


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("helm install x y --set securityContext.privileged=true", "privileged=true"),
        ("helm upgrade x y --set image.tag=2,auth.disabled=true", "auth.disabled=true"),
        ("helm upgrade x y --set-string networkPolicy.enabled=false", "Policy.enabled=false"),
        ("helm upgrade x y --set backup.enabled=false", "backup.enabled=false"),
        ("terraform apply -auto-approve -var deletion_protection=false", "protection=false"),
        ("terraform apply -var=publicly_accessible=true", "publicly_accessible=true"),
        ("aws rds modify-db-instance --db-instance-identifier p --no-deletion-protection", "--no-deletion-protection"),
        ("aws rds modify-db-instance --backup-retention-period 0", "backup-retention-period=0"),
        ("aws s3 ls s3://x --no-verify-ssl", "--no-verify-ssl"),
        ("aws lambda update-function-configuration --environment Variables={AUTH_ENABLED=false}", "AUTH_ENABLED=false"),
        ("gcloud run deploy web --allow-unauthenticated", "--allow-unauthenticated"),
        ("gcloud compute firewall-rules create x --source-ranges=0.0.0.0/0", "0.0.0.0/0"),
        ('kubectl patch deploy web -p \'{"spec":{"hostNetwork":true}}\'', 'hostNetwork":true'),
        ("kubectl annotate svc web lb-scheme=internet-facing", "internet-facing"),
        ("kubectl apply -f x.yaml --validate=false", "validate=false"),
    ],
)
def test_a_setting_that_weakens_is_told_by_its_name(line: str, target: str) -> None:
    assert ("disables-check", target) in read_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "helm upgrade x y --set image.tag=1.2 --set replicaCount=3",
        "helm upgrade x y --set metrics.enabled=false,ingress.tls.enabled=true",
        "helm upgrade x y --set feature.disabled=true",
        "helm upgrade x y --set image.pullPolicy=Always",
        "aws ec2 describe-security-groups --filters Name=cidr,Values=0.0.0.0/0",
        "aws cloudformation create-stack --stack-name x --disable-rollback",
        "kubectl annotate svc web team=core",
        "kubectl scale deploy/web --replicas=0",
        "terraform plan -var deletion_protection=false",
    ],
)
def test_an_ordinary_setting_weakens_nothing(line: str) -> None:
    assert "disables-check" not in {kind for kind, _ in read_line(line)}
