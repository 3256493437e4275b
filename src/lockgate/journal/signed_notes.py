"""Signed notes as C2SP writes them: checkpoints, verifier keys, cosignatures and proofs of inclusion, all plain text.

Follows c2sp.org/signed-note, tlog-checkpoint, tlog-cosignature, tlog-witness and tlog-proof@v1. The caller, who holds
the keys, passes in the functions that sign and verify. The parsers accept exactly one spelling: with a second one an
attacker could change the bytes of a note without changing its meaning.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import NamedTuple

from lockgate.core.errors import InvalidNote, quoted
from lockgate.journal.merkle import HASH, MAX_SIZE, verify_inclusion

# The kinds of signature that this module understands; it ignores all others.
ED25519 = 0x01
COSIGNATURE = 0x04
# A log's head has a few hundred bytes, and each witness adds one line; C2SP asks for room for sixteen.
MAX_NOTE = 1 << 16
MAX_SIGNATURES = 100
MAX_ORIGIN = 255
# The longest proof in a tree of 63 bits; each hash is a line of 45 bytes.
MAX_PROOF = 63
MAX_SUBMISSION = MAX_NOTE + 64 * (MAX_PROOF + 1)

PROOF_HEADER = "c2sp.org/tlog-proof@v1"

_NUMBER = re.compile("0|[1-9][0-9]{0,18}", re.ASCII)
_NOT_IN_FILES = re.compile("[^A-Za-z0-9.-]+")
_DASH = "\N{EM DASH} "
_PUBLIC = 32
_SIGNATURE = 64

# Sign: message to signature. Verify: (public key, message, signature) to whether the signature holds; never raises.
Sign = Callable[[bytes], bytes]
Verify = Callable[[bytes, bytes, bytes], bool]


class PublicKey(NamedTuple):
    """The public key of a log (`kind` ED25519) or of a witness (`kind` COSIGNATURE)."""

    name: str
    public: bytes
    kind: int = ED25519

    @property
    def id(self) -> bytes:
        """Four bytes that select the key; they prove nothing."""
        return sha256(self.name.encode() + b"\n" + bytes((self.kind,)) + self.public).digest()[:4]

    @property
    def vkey(self) -> str:
        """The key as one word of text, for configuration files and messages."""
        return f"{self.name}+{self.id.hex()}+{_base64(bytes((self.kind,)) + self.public)}"


def check_public_key(name: str, public: bytes, kind: int = ED25519) -> PublicKey:
    """Return the key; raise InvalidNote if a log or witness of ours cannot have this name or key."""
    _check_name(name)
    if len(public) != _PUBLIC or kind not in (ED25519, COSIGNATURE):
        raise InvalidNote(f"the key of {quoted(name)} is not an Ed25519 key of {_PUBLIC} bytes")
    return PublicKey(name, public, kind)


def parse_vkey(text: str) -> PublicKey:
    """Parse what `vkey` wrote. Only the first two `+` are separators: the base64 at the end may contain more."""
    name, _, rest = text.strip().partition("+")
    id, _, encoded = rest.partition("+")
    try:
        data = _unbase64(encoded)
    except ValueError:
        data = b""
    if not data:
        raise InvalidNote(f"{quoted(text)} is no verifier key", hint="it reads NAME+8 HEX DIGITS+BASE64")
    key = check_public_key(name, data[1:], data[0])
    if key.id.hex() != id:
        raise InvalidNote(f"the verifier key {quoted(text)} does not have the id it claims", hint="copy it again")
    return key


class Signature(NamedTuple):
    """One signature line: `name` and `id` select the key, `data` is the signature."""

    name: str
    id: bytes
    data: bytes

    @property
    def line(self) -> str:
        """The line as a note has it, with its newline."""
        return f"{_DASH}{self.name} {_base64(self.id + self.data)}\n"


class Note(NamedTuple):
    """A text, ending in a newline, with the signatures under it."""

    text: str
    signatures: tuple[Signature, ...]

    def to_bytes(self) -> bytes:
        """Return the note as C2SP writes it."""
        return f"{self.text}\n{''.join(each.line for each in self.signatures)}".encode()


def parse_note(data: bytes) -> Note:
    """Return the note in these bytes. No signature is checked yet."""
    if len(data) > MAX_NOTE:
        raise InvalidNote(f"a note of more than {MAX_NOTE:,} bytes is refused")
    try:
        whole = data.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidNote("a note must be UTF-8") from None
    if any(ch < " " and ch != "\n" for ch in whole):
        raise InvalidNote("a note must not hold control characters")
    text, gap, below = whole.rpartition("\n\n")
    if not gap or not below.endswith("\n"):
        raise InvalidNote("a note ends with an empty line and lines of signatures")
    signatures = tuple(_parse_signature(line) for line in below[:-1].split("\n"))
    if len(signatures) > MAX_SIGNATURES:
        raise InvalidNote(f"a note with more than {MAX_SIGNATURES} signatures is refused")
    return Note(f"{text}\n", signatures)


def sign_note(text: str, key: PublicKey, sign: Sign) -> Note:
    """Return a note: this text, signed by one key."""
    return Note(text, (Signature(key.name, key.id, sign(text.encode())),))


def cosign_note(note: Note, key: PublicKey, sign: Sign, *, time_s: int) -> Note:
    """Return the note with a witness's line: at this time it knew no larger tree, and this one is consistent."""
    data = time_s.to_bytes(8, "big") + sign(_cosignature_message(note.text, time_s))
    return note._replace(signatures=(*note.signatures, Signature(key.name, key.id, data)))


def verify_signatures(note: Note, keys: Iterable[PublicKey], verify: Verify) -> dict[PublicKey, int]:
    """Return the trusted keys that have signed, each with the time it gave (else 0).

    Ignore lines by unknown keys. Raise InvalidNote for a line that names a trusted key and does not verify.
    """
    trusted = {(key.name, key.id): key for key in keys}
    found: dict[PublicKey, int] = {}
    for each in note.signatures:
        key = trusted.get((each.name, each.id))
        if key is None:
            continue
        time_s, data, message = 0, each.data, note.text.encode()
        if key.kind == COSIGNATURE:
            time_s, data = int.from_bytes(data[:8], "big"), data[8:]
            message = _cosignature_message(note.text, time_s)
        if len(data) != _SIGNATURE or time_s >= MAX_SIZE or not verify(key.public, message, data):
            raise InvalidNote(f"the signature by {quoted(key.name)} does not hold: the note or the line was changed")
        found[key] = max(time_s, found.get(key, 0))
    return found


class Checkpoint(NamedTuple):
    """A log's head: the log's name, its number of records, and the root over them."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The text that the log's key signs."""
        return "".join(f"{line}\n" for line in (self.origin, self.size, _base64(self.root), *self.extensions))


def parse_checkpoint(text: str) -> Checkpoint:
    """Return the head in a note's text; raise InvalidNote if there is none."""
    lines = text.split("\n")
    if len(lines) < 4 or lines[-1] or not all(lines[:-1]):
        raise InvalidNote("a checkpoint is a line each for origin, size and root")
    origin, size, root, *extensions = lines[:-1]
    return Checkpoint(origin, _parse_number(size, "size"), _parse_hash(root), tuple(extensions))


def open_checkpoint(data: bytes, key: PublicKey, verify: Verify) -> Checkpoint:
    """Return the head in a note that the log's key has signed; raise InvalidNote for any other."""
    note = parse_note(data)
    if key not in verify_signatures(note, (key,), verify):
        signers = ", ".join(f"{each.name} {each.id.hex()}" for each in note.signatures)
        raise InvalidNote(
            f"not signed by the key {quoted(f'{key.name} {key.id.hex()}', 120)}, but by {quoted(signers, 200)}",
            hint="check that the public key is the one of this log",
        )
    checkpoint = parse_checkpoint(note.text)
    # Two logs that share a key must not pass for each other.
    if checkpoint.origin != key.name:
        raise InvalidNote(
            f"the checkpoint is of the log {quoted(checkpoint.origin)}, the key of {quoted(key.name)}",
            hint="give the public key of this log",
        )
    return checkpoint


def parse_checkpoints(data: bytes) -> list[bytes]:
    """Return the notes in a file that heads were appended to; leave out what a crash cut short.

    A checkpoint contains no empty line: an empty line separates one from the next.
    """
    *parts, last = data.split(b"\n\n")
    if last.endswith(b"\n"):
        parts.append(last.removesuffix(b"\n"))
    return [
        text.lstrip(b"\n") + b"\n\n" + below + b"\n"
        for text, below in pairwise(parts)
        if all(line.startswith(_DASH.encode()) for line in below.split(b"\n"))
    ]


def file_name(origin: str) -> str:
    """Return a file name for a log: safe on every file system, and different for different logs."""
    plain = _NOT_IN_FILES.sub("_", origin)[:80]
    return f"{plain}-{sha256(origin.encode()).hexdigest()[:8]}.checkpoint"


@dataclass(frozen=True, slots=True)
class Submission:
    """A log's request to a witness (c2sp.org/tlog-witness): its new head, and a proof that it continues `old`."""

    old: int
    hashes: tuple[bytes, ...]
    checkpoint: bytes

    def to_bytes(self) -> bytes:
        lines = [f"old {self.old}", *map(_base64, self.hashes), "", ""]
        return "\n".join(lines).encode() + self.checkpoint


def parse_submission(data: bytes) -> Submission:
    """Return the request in these bytes; raise InvalidNote for any other form."""
    head, gap, checkpoint = data.partition(b"\n\n")
    try:
        old, *hashes = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        old, hashes = "", []
    if not gap or not old.startswith("old ") or len(data) > MAX_SUBMISSION:
        raise InvalidNote("not a head for a witness", hint="its first line is the word old and a size")
    if len(hashes) > MAX_PROOF:
        raise InvalidNote(f"a proof of more than {MAX_PROOF} hashes is refused")
    return Submission(_parse_number(old.removeprefix("old "), "size"), tuple(map(_parse_hash, hashes)), checkpoint)


@dataclass(frozen=True, slots=True)
class Proof:
    """Proof that a record is in a log: index, hashes up to the root, signed head. `extra` proves nothing."""

    index: int
    hashes: tuple[bytes, ...]
    checkpoint: bytes
    extra: bytes = b""

    def to_bytes(self) -> bytes:
        lines = [PROOF_HEADER, f"index {self.index}", *map(_base64, self.hashes), "", ""]
        if self.extra:
            lines.insert(1, f"extra {_base64(self.extra)}")
        return "\n".join(lines).encode() + self.checkpoint


def parse_proof(data: bytes) -> Proof:
    """Return the proof in these bytes; raise InvalidNote for any other form."""
    head, gap, checkpoint = data.partition(b"\n\n")
    try:
        header, *lines = head.decode("ascii").split("\n")
    except UnicodeDecodeError:
        header, lines = "", []
    if header != PROOF_HEADER or not gap or len(data) > 2 * MAX_NOTE:
        raise InvalidNote("not a proof of inclusion", hint=f"its first line is {PROOF_HEADER}")
    extra = b""
    if lines and lines[0].startswith("extra "):
        try:
            extra = _unbase64(lines.pop(0).removeprefix("extra "))
        except ValueError:
            extra = b""
        # A proof without extra data has no such line.
        if not extra:
            raise InvalidNote("the extra data of a proof is not base64")
    if not lines or not lines[0].startswith("index "):
        raise InvalidNote("a proof of inclusion names an index")
    index = _parse_number(lines[0].removeprefix("index "), "index")
    return Proof(index, tuple(_parse_hash(line) for line in lines[1:]), checkpoint, extra)


def verify_proof(proof: Proof, leaf: bytes, key: PublicKey, verify: Verify) -> Checkpoint:
    """Return the signed head that has this leaf's hash at the proof's index; raise InvalidNote if there is none."""
    checkpoint = open_checkpoint(proof.checkpoint, key, verify)
    if not verify_inclusion(proof.index, checkpoint.size, leaf, proof.hashes, checkpoint.root):
        raise InvalidNote(
            f"the proof does not lead from the record to the root: it is not record {proof.index} of this log"
        )
    return checkpoint


def _cosignature_message(text: str, time_s: int) -> bytes:
    return f"cosignature/v1\ntime {time_s}\n{text}".encode()


def _parse_signature(line: str) -> Signature:
    dash, name, encoded = line[:2], *line[2:].partition(" ")[::2]
    try:
        data = _unbase64(encoded)
    except ValueError:
        data = b""
    if dash != _DASH or not _is_name(name) or len(data) < 5:
        raise InvalidNote(f"{quoted(line)} is no line of a signature")
    return Signature(name, data[:4], data[4:])


def _is_name(name: str) -> bool:
    return bool(name) and "+" not in name and not any(ch.isspace() for ch in name)


def _check_name(name: str) -> None:
    if not _is_name(name) or len(name) > MAX_ORIGIN or not name.isprintable():
        raise InvalidNote(
            f"{quoted(name)} cannot name a log or a key",
            hint=f"at most {MAX_ORIGIN} characters without spaces and `+`, e.g. example.com/lockgate/2026a",
        )


def _parse_number(text: str, what: str) -> int:
    # At most nineteen digits, checked before the conversion: the conversion's cost grows with the square of the length.
    if not _NUMBER.fullmatch(text) or int(text) >= MAX_SIZE:
        raise InvalidNote(f"{quoted(text)} is no {what}")
    return int(text)


def _parse_hash(text: str) -> bytes:
    try:
        data = _unbase64(text)
    except ValueError:
        data = b""
    if len(data) != HASH:
        raise InvalidNote(f"{quoted(text)} is no hash")
    return data


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _unbase64(text: str) -> bytes:
    """Decode base64; raise ValueError unless encoding gives the same text: Python's decoder accepts other spellings."""
    try:
        data = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        raise ValueError("not base64") from None
    if _base64(data) != text:
        raise ValueError("not base64 as it is written")
    return data
