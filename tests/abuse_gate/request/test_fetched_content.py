"""Names under which a request points at content that it does not carry."""

from __future__ import annotations

import pytest

from lockgate.abuse_gate.request.fetched_content import REFERENCE_NAMES, points_elsewhere


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("file_id", "file-1", True),
        ("fileid", 7, True),
        ("file_ids", ["", "file-1"], True),
        ("file_ids", [], False),
        ("file_id", None, False),
        ("file_id", False, False),
        ("s3location", {"bucket": "b", "key": "k"}, True),
        ("container", {"type": "auto"}, False),
        ("image_url", "files.example/a.png", True),
        ("image_url", "DATA:image/png;base64,AAAA", False),
        ("image_url", {"url": "data:image/png;base64,AAAA"}, False),
        ("images", ["iVBORw0KGgo="], False),
        ("images", [" HTTPS://files.example/a.png\n"], True),
        ("image", "see https://files.example/a.png", False),
        ("prompt", "https://files.example/a.png", False),
    ],
)
def test_a_value_points_elsewhere(name: str, value: object, *, expected: bool) -> None:
    assert points_elsewhere(name, value) is expected


def test_names_are_in_lower_case_and_without_underscores_too() -> None:
    assert {"document_url", "documenturl", "s3_location", "s3location"} <= REFERENCE_NAMES
    assert all(name == name.lower() for name in REFERENCE_NAMES)
