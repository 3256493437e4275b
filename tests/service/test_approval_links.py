"""Links to a held call. What the service does with them is in `test_notifications.py`."""

from __future__ import annotations

from base64 import urlsafe_b64encode

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


def test_taking_a_persons_token_away_ends_the_links_of_that_person_alone() -> None:
    people = {"ana": "lgp_" + "a" * 40, "bo": "lgp_" + "b" * 40}
    links = ApprovalLinks(lambda: "lgp_" + "x" * 40, lambda name: people.get(name, ""))
    claims = [CLAIM, CLAIM._replace(person="bo"), CLAIM._replace(person="")]
    made = [links.make(each) for each in claims]
    assert [links.read(each, 100.0) for each in made] == claims
    del people["ana"]
    assert [links.read(each, 100.0) for each in made] == [None, *claims[1:]]
    people["bo"] = "lgp_" + "c" * 40
    assert [links.read(each, 100.0) for each in made] == [None, None, claims[2]]


def test_a_claim_of_another_shape_is_refused() -> None:
    links = ApprovalLinks(lambda: "lgp_" + "x" * 40, {"ana": ""}.__getitem__)
    odd = links.make(CLAIM).replace(".", ".0")
    nested = urlsafe_b64encode(b'["0", "hook", ["ana"], 200.0]').decode()
    for text in (odd, f"{nested}.0", f"{urlsafe_b64encode(b'[' * 5_000).decode()}.0", "e30.0", "a.b", ".", ""):
        assert links.read(text, 100.0) is None
