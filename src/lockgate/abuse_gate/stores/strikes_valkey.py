"""Strikes and bans that several workers and hosts share, in Valkey or another server with its protocol.

The server runs one script. A worker reports its news to it, and gets what the others know, in one atomic step. Every
report can be repeated: a strike has an id and counts once, and of two ends of a ban the later one stands. So a call
with a lost answer is simply repeated with the next request.

Bans also go onto a list, and every answer carries the new ones: when the server goes down, each worker knows all of
them. The first worker gives the server a name. A server without that name, or with a shorter list, has lost its data,
and the workers report everything again.

Only the server's clock counts. All times in messages are ages and seconds left.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from secrets import token_hex
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from lockgate.core.errors import InvalidConfig
from lockgate.core.requests.strikes import (
    LIFTED,
    PRINCIPAL,
    LadderSettings,
    SharedRecord,
    SharedStrikes,
    Standing,
    StrikeReport,
    Subject,
)
from lockgate.runtime.circuit_breaker import CallResult, Circuit, CircuitLimits, admit, settle

if TYPE_CHECKING:
    from valkey.asyncio import Valkey
    from valkey.commands.core import AsyncScript

# For a whole call: waiting for a connection, connecting, asking and reading.
DEADLINE_S = 0.05
# After three calls in a row without an answer, no request asks for a second.
LIMITS = CircuitLimits(failures=3, open_s=1.0, lease_s=5.0)
MAX_CONNECTIONS = 16
# Bans per answer; a worker that starts late gets the rest with the next answers.
MAX_BANS = 100
_FIELDS = {Standing.EXECUTE_LOCKED: "l", Standing.FULL_QUARANTINE: "q"}
_LEFT = {"l": "locked_s", "q": "quarantined_s"}
_BANS = "{lockgate:abuse}:bans"
# For an operator at a command, not for a request.
_PATIENCE_S = 5.0

# KEYS: the server's name, the list of bans, then one hash for each subject told about: `l` and `q` are the ends of its
# bans and every other field is a strike, all in milliseconds of the server's clock. `%.0f`, because Lua would write a
# large number with an exponent.
SCRIPT = """
local asked = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function whole(number) return string.format('%.0f', number) end

redis.call('SET', KEYS[1], asked.name, 'NX')
local known = {}
for i, told in ipairs(asked.told) do
  local key, strikes, ends, was = KEYS[i + 2], {}, {l = 0, q = 0}, {l = 0, q = 0}
  local stored, changed, struck, lifted = redis.call('HGETALL', key), false, false, false
  for j = 1, #stored, 2 do
    local field, at = stored[j], tonumber(stored[j + 1])
    if field == 'x' then
      lifted = true
    elseif ends[field] then
      -- An end further away than the cooldown is a clock that was put back; so is a strike that is yet to come.
      ends[field] = math.min(at, now + asked.most[field])
      was[field] = ends[field]
      changed = changed or ends[field] ~= at
    elseif now - at >= asked.window then
      redis.call('HDEL', key, field)
    else
      if at > now then redis.call('HSET', key, field, whole(now)) end
      table.insert(strikes, {at = math.min(at, now), field = field})
    end
  end
  for _, strike in ipairs(told.strikes) do
    local at = now - strike[2]
    if strike[2] < asked.window and redis.call('HSETNX', key, 's' .. strike[1], whole(at)) == 1 then
      table.insert(strikes, {at = at, field = 's' .. strike[1]})
      struck = true
    end
  end
  table.sort(strikes, function(a, b) return a.at > b.at end)
  while #strikes > asked.kept do redis.call('HDEL', key, table.remove(strikes).field) end
  if told.principal then
    for _, tier in ipairs(asked.tiers) do
      if struck and #strikes >= tier.threshold then
        redis.call('HDEL', key, 'x')
        ends[tier.mode] = math.max(ends[tier.mode], now + tier.cooldown)
      end
    end
    for mode, left in pairs(told.left) do
      -- Within a second it is the same ban, a message's way later: taken over each time it would never end.
      local at = now + math.min(left, asked.most[mode])
      -- Who has not heard yet that a ban was lifted tells of it still.
      if left > 0 and not lifted and at - ends[mode] > 1000 then ends[mode] = at end
    end
  end
  local last = now + asked.window
  for mode, at in pairs(ends) do
    if at > now then
      if at ~= was[mode] or changed then redis.call('HSET', key, mode, whole(at)) end
      if at - math.max(was[mode], now) > 1000 then
        local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
        local score = math.max(now * 1000, (tonumber(top[2]) or 0) + 1)
        redis.call('ZADD', KEYS[2], whole(score), told.key .. ':' .. mode .. ':' .. whole(at))
        redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', whole((now - math.max(asked.most.l, asked.most.q)) * 1000))
        redis.call('PEXPIRE', KEYS[2], whole(math.max(asked.most.l, asked.most.q) * 2))
      end
      last = math.max(last, at)
    end
  end
  if struck or last > now + asked.window or changed then redis.call('PEXPIRE', key, whole(last - now + 1000)) end
  local one = {math.max(0, ends.l - now), math.max(0, ends.q - now)}
  for _, strike in ipairs(strikes) do table.insert(one, now - strike.at) end
  table.insert(known, one)
end

local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local rows = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. asked.cursor, '+inf', 'WITHSCORES', 'LIMIT', 0, asked.bans)
local bans = {}
for j = 1, #rows, 2 do
  local key, mode, at = string.match(rows[j], '^(%x+):(%l):(%d+)$')
  if key and #key == 32 then table.insert(bans, {key, mode, tonumber(at) - now}) end
end
return {ARGV[2], redis.call('GET', KEYS[1]), known, bans, rows[#rows] or asked.cursor, top[2] or '0'}
"""


# KEYS: the list of bans, the subject's hash. Its strikes go as well: they would lead to the same ban at the next one.
LIFT = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local top = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
for _, row in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  if string.sub(row, 1, 33) == ARGV[1] .. ':' then redis.call('ZREM', KEYS[1], row) end
end
redis.call('DEL', KEYS[2])
redis.call('HSET', KEYS[2], 'x', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[2], ARGV[2])
local score = string.format('%.0f', math.max(now * 1000, (tonumber(top[2]) or 0) + 1))
redis.call('ZADD', KEYS[1], score, ARGV[1] .. ':x:' .. string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 2)
return 1
"""


class ValkeyStrikes:
    """A server that all workers with the same secret share. `exchange` never raises: it returns None if it fails."""

    def __init__(
        self,
        url: str,
        settings: LadderSettings,
        *,
        deadline_s: float = DEADLINE_S,
        limits: CircuitLimits = LIMITS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._url, self._settings = url, settings
        self._deadline_s, self._limits, self._clock = deadline_s, limits, clock
        # The address may hold a password, so no message quotes it.
        try:
            from valkey.asyncio.connection import parse_url

            parse_url(url)
        except ImportError:
            raise InvalidConfig(
                "shared strikes in Valkey need the package `valkey`", hint="pip install 'lockgate[api]'"
            ) from None
        except (TypeError, ValueError):
            raise InvalidConfig(
                "the address of the Valkey server cannot be read",
                hint="such as valkey://127.0.0.1:6379/0, valkeys:// for TLS, or unix:///run/valkey.sock",
            ) from None
        self._circuit = Circuit()
        self._client: Valkey | None = None
        self._script: AsyncScript
        self._home: asyncio.AbstractEventLoop | None = None
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
        self._name = ""
        self._cursor = "0"
        self._policy = {
            "window": _ms(settings.window_s),
            "kept": settings.kept_strikes,
            "bans": MAX_BANS,
            "most": {field: _ms(settings.cooldown_s(mode)) for mode, field in _FIELDS.items()},
            "tiers": [
                {"threshold": threshold, "cooldown": _ms(cooldown_s), "mode": _FIELDS[mode]}
                for threshold, cooldown_s, mode in (
                    (settings.tier1_threshold, settings.tier1_cooldown_s, settings.tier1_mode),
                    (settings.tier2_threshold, settings.tier2_cooldown_s, settings.tier2_mode),
                )
            ],
        }

    async def exchange(self, told: Sequence[StrikeReport]) -> SharedStrikes | None:
        """Report to the others and return what they know; None if no valid answer came in time."""
        self._circuit, ticket = admit(self._circuit, self._clock(), self._limits)
        if ticket is None:
            return None
        result = CallResult.NEUTRAL
        try:
            async with asyncio.timeout(self._deadline_s):
                heard = await self._ask(told)
            result = CallResult.SUCCESS
            return heard
        except Exception:  # noqa: BLE001 - the edge to the server: without it, each process judges alone
            result = CallResult.FAILURE
            return None
        finally:
            self._circuit = settle(self._circuit, ticket, result, self._clock(), self._limits)

    async def bans(self) -> dict[str, SharedRecord]:
        """Return every ban in force by its principal's key, for an operator; raise if the server does not answer."""
        await self._script_for_this_loop()
        client = cast(Any, self._client)
        async with asyncio.timeout(_PATIENCE_S):
            rows = await client.zrange(_BANS, 0, -1)
            seconds, micros = await client.time()
        found: dict[str, SharedRecord] = {}
        for key, mode, at in (row.split(":") for row in rows):
            left_s = int(at) / 1000 - seconds - micros / 1e6
            if mode == "x":
                found.pop(key, None)
            elif left_s > 0:
                before = found.get(key, SharedRecord())
                found[key] = before._replace(**{_LEFT[mode]: max(left_s, getattr(before, _LEFT[mode]))})
        return found

    async def time_s(self) -> float:
        """Return the server's time in seconds, for an operator; raise if it does not answer."""
        await self._script_for_this_loop()
        async with asyncio.timeout(_PATIENCE_S):
            seconds, micros = await cast(Any, self._client).time()
        return float(seconds + micros / 1e6)

    async def lift(self, key: str) -> None:
        """Lift this principal's bans for all workers; raise if the server does not answer."""
        await self._script_for_this_loop()
        client = cast(Any, self._client)
        longest = max(self._settings.cooldown_s(mode) for mode in _FIELDS)
        async with asyncio.timeout(_PATIENCE_S):
            await client.eval(LIFT, 2, _BANS, _subject_key(PRINCIPAL, key), key, _ms(longest))

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                await client.aclose()

    async def _ask(self, told: Sequence[StrikeReport]) -> SharedStrikes:
        script = await self._script_for_this_loop()
        nonce, cursor = token_hex(8), self._cursor
        asked = self._policy | {
            "name": self._name or nonce,
            "cursor": cursor,
            "told": [
                {
                    "key": each.subject.key,
                    "principal": each.subject.kind == PRINCIPAL,
                    "strikes": [[id, _ms(age_s)] for id, age_s in each.strikes],
                    "left": {"l": _ms(each.locked_s), "q": _ms(each.quarantined_s)},
                }
                for each in told
            ],
        }
        # One tag for all keys: in a cluster they must be on one server, for the script sees them together.
        keys = ["{lockgate:abuse}:name", _BANS, *(_subject_key(*each.subject) for each in told)]
        async with self._free:
            reply = await script(keys=keys, args=[json.dumps(asked), nonce])
        # A connection that was cancelled in the middle could give the reply to another question, with other bans.
        if reply[0] != nonce or len(reply[2]) != len(told):
            await self.close()
            raise ValueError("a reply to something else")
        return self._heard_from_reply(cursor, *reply[1:])

    def _heard_from_reply(
        self, asked: str, name: str, known: list[list[int]], bans: list[list[Any]], cursor: str, top: str
    ) -> SharedStrikes:
        forgot = bool(self._name) and (name != self._name or int(top) < int(asked))
        heard = SharedStrikes(
            tuple(SharedRecord(tuple(ms / 1000 for ms in ages), l / 1000, q / 1000) for l, q, *ages in known),  # noqa: E741
            tuple(
                (
                    Subject(PRINCIPAL, bytes.fromhex(key).hex()),
                    LIFTED if mode == "x" else SharedRecord((), **{_LEFT[mode]: max(0, ms) / 1000}),
                )
                for key, mode, ms in bans
            ),
            forgot,
        )
        # Replies may arrive out of order.
        self._name, self._cursor = name, "0" if forgot else max(cursor, self._cursor, key=int)
        return heard

    async def _script_for_this_loop(self) -> AsyncScript:
        """Return the script on a client of this event loop: another loop cannot use its connections."""
        home = asyncio.get_running_loop()
        if self._client is None or self._home is not home:
            from valkey.asyncio import Valkey

            await self.close()
            # The client does not check the host of a certificate by default.
            tls: dict[str, Any] = {"ssl_check_hostname": True} if self._url.startswith(("valkeys:", "rediss:")) else {}
            self._client = Valkey.from_url(self._url, decode_responses=True, **tls)
            self._script = self._client.register_script(SCRIPT)
            self._home, self._free = home, asyncio.Semaphore(MAX_CONNECTIONS)
        return self._script


def _subject_key(kind: str, key: str) -> str:
    return f"{{lockgate:abuse}}:{kind}:{key}"


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
