"""Links to a held call. What the service does with them is in `test_notifications.py`."""

from __future__ import annotations

from lockgate.service.approval_links import ApprovalLinks, LinkClaim

CLAIM = LinkClaim("0" * 16, "hook", "ana", 200.0)


def test_a_link_is_read_back_until_its_time_has_passed() -> None:
    token = ["lgp_" + "x" * 40]
    links = ApprovalLinks(lambda: token[0])
    made = links.make(CLAIM)
    assert links.read(made, 199.0) == CLAIM
    assert links.read(made, 200.0) is None
    assert links.read(made, 100.0, "ticket") is None
    # A new token ends all links.
    token[0] = "lgp_" + "y" * 40
    assert links.read(made, 100.0) is None
