"""A client in the same process for FastMCP."""

from __future__ import annotations

import asyncio
from typing import Any

from fastmcp import Client


def scripted(calls: Any) -> dict[str, Any]:
    return {}


def told_by(page: dict[str, Any], calls: Any) -> list[str]:
    async def run() -> list[str]:
        async with Client(page["server"]) as client:
            results = [await client.call_tool(*call, raise_on_error=False) for call in calls]
        assert [each.is_error for each in results] == [False, False, True]
        return [each.content[0].text for each in results]

    return asyncio.run(run())
