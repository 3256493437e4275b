"""What is asked of a verifier: values that keep secrets out of logs, and text that cannot leave its fence."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from lockgate.core.questions import fence_value

_NONCES = st.text("unrtbf0123456789abc", min_size=16, max_size=20).filter(lambda nonce: len(set(nonce)) >= 6)


@given(st.text(max_size=60), _NONCES)
@settings(max_examples=100, deadline=None)
def test_whatever_text_and_nonce_the_text_comes_back_and_the_nonce_does_not_show(text: str, nonce: str) -> None:
    for said in (text, text + nonce + text, "\n" + nonce[1:] + text, "\\" + nonce, nonce * 3, "\t" + nonce[1:] + nonce):
        written = fence_value(said, nonce)
        assert json.loads(written) == said
        assert nonce not in written
        assert written.isprintable()
