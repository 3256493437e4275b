"""A scan as SARIF 2.1.0, the form that code scanning services read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import quote

import lockgate
from lockgate.cli.scan_severity import ScanSeverity
from lockgate.core.ruling.explanations import CatalogueEntry, entry_for

if TYPE_CHECKING:
    from lockgate.cli.scan import ScanHit, ScanReport
    from lockgate.cli.scanned_files import SkippedFile

_LEVELS = {ScanSeverity.HIGH: "error", ScanSeverity.MEDIUM: "warning", ScanSeverity.LOW: "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_from_report(report: ScanReport) -> dict[str, object]:
    """One run; only rules that hit are listed, each with its explanation as help text."""
    ids = sorted({hit.rule for hit in report.hits})
    positions = {rule: number for number, rule in enumerate(ids)}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "lockgate",
                        "version": lockgate.__version__,
                        "semanticVersion": lockgate.__version__,
                        "rules": [_rule_object(rule, entry_for(rule)) for rule in ids],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "invocations": [
                    {
                        "executionSuccessful": report.complete and not report.failed,
                        "toolExecutionNotifications": [
                            *(_unread_notification(each) for each in report.failed),
                            *(
                                {"level": "note", "message": {"text": f"not scanned: {count:,} {reason}"}}
                                for reason, count in report.reasons.items()
                            ),
                        ],
                    }
                ],
                "results": [_result_object(hit, positions[hit.rule]) for hit in report.hits],
            }
        ],
    }


def _rule_object(rule: str, entry: CatalogueEntry) -> dict[str, object]:
    help_text = entry.what + "\n\nWhy: " + entry.why
    if entry.hit:
        help_text += f"\n\nFound: {entry.hit}\nLeft alone: {entry.miss}"
    return {
        "id": rule,
        "shortDescription": {"text": entry.what},
        "fullDescription": {"text": f"{entry.what}: {entry.why}"},
        "help": {"text": help_text},
        "defaultConfiguration": {"level": "warning" if entry.scope == "agent" else "note"},
        "properties": {"tags": ["security", "prompt-injection", entry.family], "owasp": entry.owasp},
    }


def _result_object(hit: ScanHit, position: int) -> dict[str, object]:
    reading = "" if hit.reading == "raw" else f" (read as {hit.reading})"
    excerpt = f": {hit.excerpt}" if hit.excerpt else ""
    return {
        "ruleId": hit.rule,
        "ruleIndex": position,
        "level": _LEVELS[hit.severity],
        "message": {"text": f"{entry_for(hit.rule).what}{reading}{excerpt}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(hit.file)},
                    "region": {
                        "startLine": hit.line,
                        "startColumn": hit.column,
                        "endLine": hit.end_line,
                        "endColumn": hit.end_column,
                    },
                }
            }
        ],
    }


def _unread_notification(skipped: SkippedFile) -> dict[str, object]:
    return {
        "level": "error",
        "message": {"text": f"cannot be read: {skipped.reason}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": _uri(skipped.path)}}}],
    }


def _uri(path: str) -> str:
    """A relative reference stays relative, so that a service can match it with the repository it knows."""
    named = quote(os.fsencode(os.path.normpath(path).replace(os.sep, "/")), safe="/")
    return f"file://{named}" if named.startswith("/") else named
