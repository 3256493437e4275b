"""What a user of Lockgate tests with: misbehaving providers, scripted verifiers, the contracts of adapters and plugs.

    with LoopbackProvider(say="unsafe") as provider:
        adapter = ...  # its base URL is provider.url, or provider.url + "/v1"
        assert adapter.assess({"prompt_text": "hello"}) == "unsafe"
        provider.fault = "hang"
        assert adapter.assess({"prompt_text": "hello"}) == "unclear"

The standard library is all it needs, 127.0.0.1 the only network it knows, and nothing here outlives its caller.
"""

from __future__ import annotations

from lockgate.testing.contract import check_adapter
from lockgate.testing.faults import FAULTS
from lockgate.testing.loopback import LoopbackProvider, Recorded
from lockgate.testing.scripted import ScriptedVerifier

__all__ = ["FAULTS", "LoopbackProvider", "Recorded", "ScriptedVerifier", "check_adapter", "check_plug"]


def __getattr__(name: str) -> object:
    if name == "check_plug":
        # It needs the gate and its rules, which the others do not.
        from lockgate.testing.plug_suite import check_plug

        return check_plug
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
