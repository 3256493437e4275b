"""The context of one agent run: what entered it, from where, and what Tier 1 found in it on arrival.

Append-only. Each block is scanned once, when it arrives; a call then looks at running lists, never at old text.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from lockgate.core.errors import InvalidBlock, quoted
from lockgate.core.ruling.arguments import Leaf
from lockgate.core.ruling.effects.activity import NO_ACTIVITY, Change
from lockgate.core.ruling.effects.carried_secrets import digests_of_secrets, shows_secrets
from lockgate.core.ruling.effects.own_paths import may_lead_to_own
from lockgate.core.ruling.effects.project import NO_PROJECT, Place, learn_from_reading
from lockgate.core.ruling.goal import VENDORED, Goal, delegated_names, is_delegated_to
from lockgate.core.ruling.index import Index, IndexedReading, TextIndex
from lockgate.core.ruling.targets import PATTERNS as _P
from lockgate.core.ruling.tool_risk import canonical_tool
from lockgate.core.text.imperatives import prepare, split_words
from lockgate.core.text.rules import Scope
from lockgate.core.text.scanner import RuleHit, Scan, ScannedPart, Scanner, encode
from lockgate.core.vocabulary import (
    Block,
    Effect,
    Finding,
    Kind,
    Lineage,
    Severity,
    Trust,
    build_lineage,
    default_trust,
)

# Tools of which a result may still come, and how much of what a call was given is kept.
_MAX_AWAITED, _MAX_ASKED = 256, 2_000
# So many calls of a tool are kept, and short arguments of each: results of calls side by side come in any order.
_MAX_SIDE_BY_SIDE, _MAX_SOUGHT, _MAX_SOUGHT_TEXT = 4, 8, 120


class BlockNote(NamedTuple):
    """Something found in a block on arrival: a rule's hit in one reading, or a finding that needs no locating."""

    position: int
    block: str
    rule: str
    phrase: bool
    found: Finding | tuple[RuleHit, ScannedPart]


class CarriedFrom(NamedTuple):
    """Where a block's words came from in an earlier session, and when: see `carried_text.py`.

    `is_firm`: they are the same passage or file, and not only an address that many texts have. `is_ordered`: an order
    named what the block names.
    """

    source: str
    at_s: float
    is_firm: bool
    is_ordered: bool


class PastCall(NamedTuple):
    """A call that was ruled on: its values as text, and how the ruling came out."""

    tool: str
    values: tuple[tuple[str, str], ...]
    action: str
    tier: int
    reason: str


class _StartedCall(NamedTuple):
    """A call whose result may come: what it was given, the short ones of that, and whether it reaches out."""

    asked: str
    sought: tuple[str, ...]
    reaches_out: bool


# Tools that show what lies here; their results are the project's own where the call names no other place.
_LOCAL_TOOLS = frozenset("bash edit glob grep ls multiedit notebookedit read todowrite write".split())
_NOT_HERE = (Place.SCRATCH, Place.HOME, Place.OUTSIDE)
_MAX_READ = 64


class Context:
    """Blocks and findings of one run. Not safe for several threads: the session that owns it holds a lock."""

    def __init__(self, scanner: Scanner, *, user_trust: Trust = Trust.TRUSTED, label_rows: Sequence[str] = ()) -> None:
        self._scanner = scanner
        self._label_rows = label_rows
        # By block, the labels that flow rules ask for: of its source, and of what it was made from.
        self.labels: dict[str, frozenset[str]] = {}
        self._user_trust = user_trust
        # Content is analysed once, however often and from wherever it enters.
        self._analysed: dict[str, tuple[Scan, tuple[TextIndex, ...]]] = {}
        self._located: dict[tuple[str, str], Finding] = {}
        self.blocks: list[Block] = []
        self.positions: dict[str, int] = {}
        self.index = Index()
        self.goal = Goal()
        # What counts for every call, what counts with strict patterns only, and hidden text.
        self.alarms: list[BlockNote] = []
        self.broad: list[BlockNote] = []
        self.encoded: list[BlockNote] = []
        # Whether another process began the run, so that the agent may have read more than is here.
        self.has_unknown_history = False
        # Whether a text was read that a person has vouched for, and did not write.
        self.has_vetted_text = False
        # The names in the files of the agent's folder. They can make a value no news, and nothing more.
        self.project = NO_PROJECT
        self.activity = NO_ACTIVITY
        # By tool, its latest calls, and how many of them have had no result so far.
        self._started: defaultdict[str, deque[_StartedCall]] = defaultdict(lambda: deque(maxlen=_MAX_SIDE_BY_SIDE))
        self._awaited: Counter[str] = Counter()
        # By block, the arguments of the call that it is the result of; and of those of which it may be the result.
        self.produced_by: dict[str, str] = {}
        self.looked_for: dict[str, tuple[str, ...]] = {}
        # The results of calls that reached out: they are not from here.
        self._fetched: set[str] = set()
        # Texts from outside, among as many readings as were looked at so far.
        self._foreign: list[IndexedReading] = []
        self._sorted = 0
        # By block, where its words came from in an earlier session.
        self.carried: dict[str, CarriedFrom] = {}

    def add(self, content: str, *, carried: CarriedFrom | None = None, **options: Any) -> Block:
        """Take a piece of context in, with the options of `build_block`.

        What was `carried` over from untrusted text is untrusted, whatever its source.
        """
        if carried is not None:
            options |= {"trust": Trust.UNTRUSTED, "kind": None, "mutable": None}
        position = len(self.blocks)
        block, data = self.build_block(content, **options)
        self.blocks.append(block)
        self.positions[block.id] = position
        if carried is not None:
            self.carried[block.id] = carried
        self._join_to_call(block)
        if self._label_rows:
            self._label(block)
        if block.trust is Trust.UNTRUSTED:
            self._index_untrusted(position, block)
            return block
        asks, is_vetted = block.source.partition(":")[0] in ("goal", "user"), block.trust is Trust.VETTED
        self.goal.add(data, asks=asks, vetted=is_vetted)
        # What a person accepted of an MCP tool is its description, which orders nothing.
        self.has_vetted_text = self.has_vetted_text or (is_vetted and not asks and not block.source.startswith("mcp:"))
        return block

    def _join_to_call(self, block: Block) -> None:
        """Note which call a block may be the result of."""
        tool = block.source.partition(":")[2]
        calls, awaited = [*self._started.get(tool, ())], self._awaited.pop(tool, 0)
        if awaited and any(call.reaches_out for call in calls[-awaited:]):
            self._fetched.add(block.id)
        last = calls[-1] if awaited == 1 else None
        asked = [last.asked] if last else [text for call in calls for text in call.sought]
        if shows_secrets(tool, asked):
            self.activity = self.activity.having_read(digests_of_secrets(block.content))
        if last is not None:
            self.produced_by[block.id], self.looked_for[block.id] = last.asked, last.sought
            if not self.activity.is_full:
                self.project = learn_from_reading(self.project, tool, last.asked, block.content, self.activity.written)
        elif calls:
            # Of calls side by side, those whose words it has.
            words = _words_of(block.content)
            self.looked_for[block.id] = tuple(text for text in dict.fromkeys(asked) if words >= _words_of(text))

    @property
    def readings(self) -> list[IndexedReading]:
        """The readings of all untrusted blocks, oldest first."""
        return self.index.readings

    def _label(self, block: Block) -> None:
        from lockgate.core.ruling.flow_rules import labels_of

        # An agent's own words are made of everything it has read.
        parents = self.labels if block.source.partition(":")[0] == "agent" else block.tainted_by
        inherited = frozenset().union(*(self.labels.get(parent, ()) for parent in parents))
        # A file has its label however it was read: by a program, a search, or another tool.
        read = [f"file:/{word.lstrip('/')}" for word in _P["words of call"].findall(self.produced_by.get(block.id, ""))]
        sources = [block.source, *read[:_MAX_READ]]
        if labels := inherited.union(*(labels_of(source, self._label_rows) for source in sources)):
            self.labels[block.id] = labels

    def remember_call(
        self, tool: str, leaves: Sequence[Leaf], effects: Sequence[Effect] = (), changes: Sequence[Change] = ()
    ) -> None:
        """Note a call that runs: its result may come as the next block of its tool, and it may leave files behind."""
        self.activity = self.activity.after(effects, changes)
        if any(may_lead_to_own(change.text or "", self.project) for change in changes):
            self.activity = self.activity._replace(is_near_own=True)
        if len(self._started) >= _MAX_AWAITED:
            self._awaited.clear()
            self._started.clear()
        # What the agent says of its own call is not what the call was given.
        given = [leaf.text for leaf in leaves if leaf.argument != "description"]
        sought = tuple(text for text in given[:_MAX_SOUGHT] if len(text) <= _MAX_SOUGHT_TEXT)
        reaches_out = any(effect.severity >= Severity.REACHES_OUT for effect in effects)
        self._started[tool].append(_StartedCall(" ".join(given)[:_MAX_ASKED], sought, reaches_out))
        self._awaited[tool] += 1

    def asked_for(self, source: str) -> str:
        """Return what the call was given of which a text from this source would be the result."""
        tool = source.partition(":")[2]
        return self._started[tool][-1].asked if self._awaited[tool] == 1 else ""

    def alarming_blocks(self) -> set[str]:
        """Return the blocks that speak to an agent."""
        return {note.block for note in self.alarms}

    def find_foreign(self) -> Sequence[IndexedReading]:
        """Return the untrusted texts that are neither the agent's own words nor files of the project itself."""
        suspect = self.alarming_blocks() | self.carried.keys()
        self._foreign += [
            reading
            for reading in self.readings[self._sorted :]
            if reading.block in suspect or not self._is_own(reading.block, reading.source)
        ]
        self._sorted = len(self.readings)
        return self._foreign

    def _is_own(self, block: str, source: str) -> bool:
        origin, _, place = source.partition(":")
        if origin == "file":
            return bool(self.project.root) and self.project.locate(place) is Place.INSIDE and not VENDORED.search(place)
        asked = self.produced_by.get(block)
        if origin != "tool" or not asked or canonical_tool(place) not in _LOCAL_TOOLS or block in self._fetched:
            return origin == "agent"
        if "://" in asked or VENDORED.search(asked):
            return False
        paths = (word for word in _P["words of call"].findall(asked) if word.startswith(("/", "~", "..")))
        return all(self.project.locate(path) not in _NOT_HERE for path in paths)

    def find_delegated(self) -> frozenset[str]:
        """Return the untrusted blocks to which the user handed the decision, without those that speak to an agent."""
        names = delegated_names(self.goal.asked_text)
        if not names:
            return frozenset()
        # Nor those that an agent wrote from untrusted text: the user did not mean that text.
        excluded = self.alarming_blocks() | {block for block, carried in self.carried.items() if carried.is_firm}
        return frozenset(
            reading.block
            for reading in self.readings
            if reading.block not in excluded
            and is_delegated_to(names, reading.source, self.produced_by.get(reading.block, ""))
        )

    def build_block(
        self,
        content: str,
        *,
        source: str,
        trust: Trust | None = None,
        kind: Kind | None = None,
        mutable: bool | None = None,
        tainted_by: Sequence[str] = (),
        id: str | None = None,
    ) -> tuple[Block, bytes]:
        """Return the block that `add` would take in now, and its bytes; nothing changes.

        A mixture takes the lowest trust of what it was made from.
        """
        name = self._next_id(len(self.blocks)) if id is None else id
        self._check_ids(name, tainted_by)
        origin = source.partition(":")[0]
        parents = [self.blocks[self.positions[parent]].trust for parent in tainted_by]
        if trust is None and origin == "agent" and self.readings:
            # An agent's own words are made of everything it has read, even when it names other parents.
            parents.append(Trust.UNTRUSTED)
        level = min([default_trust(source, user_trust=self._user_trust) if trust is None else trust, *parents])
        if parents and level is Trust.UNTRUSTED:
            kind = mutable = None
        if kind is None:
            speaks = level is Trust.TRUSTED and origin in ("system", "goal", "user", "supervisor")
            kind = Kind.INSTRUCTION if speaks else Kind.DATA
        if mutable is None:
            mutable = level is not Trust.TRUSTED or origin != "system"
        data = encode(content)
        return Block(name, content, level, kind, mutable, source, sha256(data).hexdigest(), tuple(tainted_by)), data

    def _check_ids(self, name: str, parents: Sequence[str]) -> None:
        for parent in parents:
            if parent not in self.positions:
                raise InvalidBlock(
                    f"block is tainted by {quoted(parent)}, which is not in this session",
                    hint="add the parent first; tainted_by takes the ids that add() returned",
                )
        if not name or name in self.positions:
            raise InvalidBlock(f"block {quoted(name)} is already in this session" if name else "a block's id is empty")

    def _next_id(self, position: int) -> str:
        # A host may have given one of our own names to a block of its own.
        while (name := f"b{position + 1:04d}") in self.positions:
            position += 1
        return name

    def analyse(self, content: str, digest: str = "") -> tuple[Scan, tuple[TextIndex, ...]]:
        """Return what Tier 1 knows about a text, which need not be in the context; a text is read once."""
        digest = digest or sha256(encode(content)).hexdigest()
        if digest not in self._analysed:
            scan = self._scanner.scan(content)
            self._analysed[digest] = scan, tuple(TextIndex(part, self._scanner) for part in scan.parts)
        return self._analysed[digest]

    def _index_untrusted(self, position: int, block: Block) -> None:
        scan, indexes = self.analyse(block.content, block.digest)
        for index in indexes:
            self.index.add(IndexedReading(position, block.id, block.source, index))
        noted: set[str] = set()
        notes = {Scope.AGENT: self.alarms, Scope.RELATED: self.broad}
        for part in scan.parts:
            for hit in part.hits:
                # What stands in the text itself says more about where than any other reading of it.
                if hit.rule.id not in noted and hit.rule.scope in notes:
                    note = BlockNote(position, block.id, hit.rule.id, hit.rule.phrase, (hit, part))
                    notes[hit.rule.scope].append(note)
                noted.add(hit.rule.id)
            if part.encoded:
                excerpt = part.data[:120].decode("utf-8", "replace")
                finding = Finding(f"encoded:{part.how}", block.id, part.start, part.end, part.how, excerpt)
                self.encoded.append(_note_from_finding(position, finding))
        capped = (Finding(f"cap:{limit}", block.id, 0, len(block.content)) for limit in scan.capped)
        self.alarms += [_note_from_finding(position, finding) for finding in capped]

    def locate_finding(self, note: BlockNote) -> Finding:
        """Return the finding of a note with its exact place, which is looked for at the first call and remembered."""
        if isinstance(note.found, Finding):
            return note.found
        key = (note.block, note.rule)
        if key not in self._located:
            self._located[key] = self._scanner.finding_from_hit(*note.found, note.block)
        return self._located[key]

    def lineage(self, block: str, *, depth: int = 16) -> Lineage:
        return build_lineage(block, {known.id: known.tainted_by for known in self.blocks}, depth=depth)


def _note_from_finding(position: int, finding: Finding) -> BlockNote:
    return BlockNote(position, finding.where, finding.rule, False, finding)


def _words_of(text: str) -> set[bytes]:
    return {*split_words(prepare(text.encode("utf-8", "ignore")))}
