"""Notes, heads, keys and proofs: as C2SP writes them, in one spelling only."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from merkle_levels import hash_levels
from paths import SUPPORT

from lockgate.core.errors import InvalidNote
from lockgate.journal import keys
from lockgate.journal.merkle import inclusion_proof, leaf_hash, root_of
from lockgate.journal.signed_notes import (
    COSIGNATURE,
    MAX_NOTE,
    MAX_SIGNATURES,
    Checkpoint,
    Note,
    Proof,
    PublicKey,
    Signature,
    check_public_key,
    cosign_note,
    open_checkpoint,
    parse_checkpoint,
    parse_note,
    parse_proof,
    parse_vkey,
    sign_note,
    verify_proof,
    verify_signatures,
)

ORIGIN = "example.com/lockgate/2026a"
LOG = keys.signer_from_seed(ORIGIN, b"\x01" * 32)
WITNESS = keys.signer_from_seed("example.com/witness", b"\x02" * 32, kind=COSIGNATURE)
LEAVES = [leaf_hash(bytes([number])) for number in range(13)]
HEAD = Checkpoint(ORIGIN, 13, root_of(LEAVES))
NOTE = sign_note(HEAD.text, LOG.key, LOG.sign)
DATA = NOTE.to_bytes()
GO = json.loads((SUPPORT / "go_log.json").read_text(encoding="utf-8"))


# Published, and written by others


# From the documentation of golang.org/x/mod/sumdb/note.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
PETER_NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
# From c2sp.org/tlog-cosignature: a head with a witness's line. Its keys are not published there.
SOFA = (
    "example.com/behind-the-sofa\n"
    "20852163\n"
    "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"
    "\n"
    "— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo"
    "+zyWE+xeMcTOAYQ8=\n"
    "— witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5"
    "nNo0xUe+mbIUBkBIfZ+qnA==\n"
)


def test_the_published_note_verifies() -> None:
    key, note = parse_vkey(PETER), parse_note(PETER_NOTE.encode())
    assert key.vkey == PETER
    assert verify_signatures(note, [key], keys.verify) == {key: 0}
    assert note.to_bytes() == PETER_NOTE.encode()
    with pytest.raises(InvalidNote):
        verify_signatures(note._replace(text=note.text.replace("answer", "cause")), [key], keys.verify)


def test_the_published_head_is_read() -> None:
    note = parse_note(SOFA.encode())
    head = parse_checkpoint(note.text)
    assert (head.origin, head.size) == ("example.com/behind-the-sofa", 20852163)
    assert head.text == note.text
    # The time that its witness's line says is the one in the document's text.
    assert int.from_bytes(note.signatures[1].data[:8], "big") == 1679315147
    assert [len(each.data) for each in note.signatures] == [64, 72]
    assert note.to_bytes() == SOFA.encode()


def test_the_head_that_go_signed_verifies_and_is_ours_to_the_byte() -> None:
    leaves = [leaf_hash(text.encode()) for text in GO["Records"]]
    key = parse_vkey(GO["Vkey"])
    head = open_checkpoint(GO["Note"].encode(), key, keys.verify)
    assert head == Checkpoint(key.name, 70, root_of(leaves))
    signer = keys.signer_from_seed(key.name, bytes(range(32)))
    assert sign_note(head.text, signer.key, signer.sign).to_bytes() == GO["Note"].encode()


# Keys


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.sampled_from([1, 4]))
def test_a_key_comes_back_from_its_text_whatever_its_bytes(public: bytes, kind: int) -> None:
    """Every other key has a `+` in its base64: only the first two part anything."""
    key = check_public_key(ORIGIN, public, kind)
    assert parse_vkey(key.vkey) == key
    assert parse_vkey(f"  {key.vkey}\n") == key


@pytest.mark.parametrize(
    "text",
    [
        "",
        "+",
        "++",
        ORIGIN,
        f"{ORIGIN}+00000000",
        LOG.key.vkey.replace("2026a", "2026b"),
        LOG.key.vkey[:-1],
        LOG.key.vkey + "A",
        LOG.key.vkey.replace(LOG.key.id.hex(), LOG.key.id.hex().upper()),
        f"{ORIGIN}+{LOG.key.id.hex()}+{b64encode(LOG.key.public).decode()}",
        PublicKey(ORIGIN, LOG.key.public, 2).vkey,
        PublicKey("two words", LOG.key.public).vkey,
        PublicKey("", LOG.key.public).vkey,
        PublicKey(ORIGIN, LOG.key.public[:-1]).vkey,
        PublicKey("x" * 256, LOG.key.public).vkey,
    ],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(InvalidNote):
        parse_vkey(text)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u2003b", "a\u200b", "\u202ea", "x" * 256])
def test_a_name_that_would_break_a_note_is_refused(name: str) -> None:
    with pytest.raises(InvalidNote):
        check_public_key(name, LOG.key.public)


# Notes


@settings(max_examples=100, deadline=None)
@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]) | st.just("\n"), max_size=40),
    st.lists(st.tuples(st.sampled_from(["a", "ü", "x/y"]), st.binary(min_size=5, max_size=80)), min_size=1, max_size=4),
)
def test_a_note_comes_back_from_its_bytes(text: str, lines: list[tuple[str, bytes]]) -> None:
    note = Note(f"{text}\n", tuple(Signature(name, data[:4], data[4:]) for name, data in lines))
    assert parse_note(note.to_bytes()) == note


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\n\n",
        b"text\n",
        b"text\n\n",
        DATA[:-1],
        DATA + b"\n",
        DATA + b"more\n",
        DATA.replace(b"\n\n", b"\n"),
        DATA.replace(b"\n", b"\r\n"),
        DATA.replace(b"13", b"1\x003"),
        DATA.replace("—".encode(), b"-"),
        DATA.replace("— ".encode(), "—".encode()),
        DATA.replace("— ".encode(), "—  ".encode()),
        DATA[:-2] + b" =\n",
        DATA[:-2] + b"\n",
        DATA + "— a AAAAAA==\n".encode(),
        DATA + "— a+b AAAAAAAA\n".encode(),
        DATA + "— a AAAAAAB=\n".encode(),
        b"\xff" + DATA,
        b"x" * MAX_NOTE + DATA,
        DATA + "— a AAAAAAAA\n".encode() * MAX_SIGNATURES,
    ],
)
def test_what_is_no_note_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidNote):
        parse_note(data)


def test_a_note_may_have_sixteen_signatures_and_more() -> None:
    note = parse_note(DATA + "— a AAAAAAAA\n".encode() * (MAX_SIGNATURES - 1))
    assert open_checkpoint(note.to_bytes(), LOG.key, keys.verify) == HEAD


def test_lines_by_strangers_are_ignored_and_prove_nothing() -> None:
    stranger = keys.signer_from_seed(ORIGIN, b"\x09" * 32)
    both = NOTE._replace(signatures=(*sign_note(HEAD.text, stranger.key, stranger.sign).signatures, *NOTE.signatures))
    assert verify_signatures(both, [LOG.key], keys.verify) == {LOG.key: 0}
    assert verify_signatures(NOTE, [stranger.key], keys.verify) == {}
    assert verify_signatures(NOTE, [], keys.verify) == {}


def test_one_bad_line_of_a_known_key_spoils_the_note() -> None:
    bad = NOTE.signatures[0]._replace(data=b"\x00" * 64)
    for signatures in ((bad, *NOTE.signatures), (*NOTE.signatures, bad), (bad,)):
        with pytest.raises(InvalidNote, match="does not hold"):
            open_checkpoint(NOTE._replace(signatures=signatures).to_bytes(), LOG.key, keys.verify)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, len(DATA) - 1), st.integers(1, 255))
def test_no_byte_of_a_signed_head_can_change(at: int, bits: int) -> None:
    changed = DATA[:at] + bytes([DATA[at] ^ bits]) + DATA[at + 1 :]
    with pytest.raises(InvalidNote):
        open_checkpoint(changed, LOG.key, keys.verify)


# Heads


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\n1\n",
        "a\n1\nAAAA\n",
        HEAD.text[:-1],
        HEAD.text + "\n",
        "\n" + HEAD.text,
        HEAD.text.replace("13", "013"),
        HEAD.text.replace("13", "+13"),
        HEAD.text.replace("13", "-13"),
        HEAD.text.replace("13", " 13"),
        HEAD.text.replace("13", "1_3"),
        HEAD.text.replace("13", "١٣"),
        HEAD.text.replace("13", "13.0"),
        HEAD.text.replace("13", str(1 << 63)),
        HEAD.text.replace("13", "9" * 5000),
        HEAD.text.replace("=\n", "\n"),
    ],
)
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(InvalidNote):
        parse_checkpoint(text)


def test_a_head_may_have_lines_of_others_behind_its_own() -> None:
    head = HEAD._replace(extensions=("more", "and more"))
    assert parse_checkpoint(head.text) == head


def test_a_head_under_the_right_key_for_another_log_is_refused() -> None:
    other = sign_note(HEAD._replace(origin="example.com/other").text, LOG.key, LOG.sign)
    with pytest.raises(InvalidNote, match="is of the log"):
        open_checkpoint(other.to_bytes(), LOG.key, keys.verify)


def test_a_head_by_another_key_is_refused() -> None:
    other = keys.signer_from_seed(ORIGIN, b"\x03" * 32)
    with pytest.raises(InvalidNote, match="not signed by the key"):
        open_checkpoint(sign_note(HEAD.text, other.key, other.sign).to_bytes(), LOG.key, keys.verify)


# Witnesses


def test_a_witness_says_when_it_saw_a_head() -> None:
    note = cosign_note(NOTE, WITNESS.key, WITNESS.sign, time_s=1_700_000_000)
    assert verify_signatures(parse_note(note.to_bytes()), [LOG.key, WITNESS.key], keys.verify) == {
        LOG.key: 0,
        WITNESS.key: 1_700_000_000,
    }
    assert open_checkpoint(note.to_bytes(), LOG.key, keys.verify) == HEAD


def test_a_witness_signs_another_message_than_the_log() -> None:
    """Or a log that holds a witness's key could turn one kind of signature into the other."""
    note = cosign_note(NOTE, WITNESS.key, WITNESS.sign, time_s=7)
    line = note.signatures[-1]
    expected = b"cosignature/v1\ntime 7\n" + HEAD.text.encode()
    assert line.data == (7).to_bytes(8, "big") + WITNESS.sign(expected)
    for data in (
        line.data[8:],
        (8).to_bytes(8, "big") + line.data[8:],
        b"\xff" * 8 + line.data[8:],
        b"",
        line.data[:8],
    ):
        changed = note._replace(signatures=(line._replace(data=data or b"\x00"),))
        with pytest.raises(InvalidNote, match="does not hold"):
            verify_signatures(changed, [WITNESS.key], keys.verify)


def test_a_log_key_and_a_witness_key_of_the_same_bytes_differ() -> None:
    assert check_public_key(ORIGIN, LOG.key.public).id != check_public_key(ORIGIN, LOG.key.public, COSIGNATURE).id


# Proofs


def proof_of(at: int, extra: bytes = b"") -> Proof:
    return Proof(at, tuple(inclusion_proof(at, 13, hash_levels(LEAVES))), DATA, extra)


@pytest.mark.parametrize("extra", [b"", b"\x00\xff"])
@pytest.mark.parametrize("at", range(13))
def test_a_proof_comes_back_from_its_bytes_and_holds(at: int, extra: bytes) -> None:
    proof = proof_of(at, extra)
    again = parse_proof(proof.to_bytes())
    assert again == proof
    assert verify_proof(again, LEAVES[at], LOG.key, keys.verify) == HEAD


def test_a_proof_reads_as_c2sp_writes_it() -> None:
    lines = proof_of(3, b"x").to_bytes().decode().split("\n")
    assert lines[:3] == ["c2sp.org/tlog-proof@v1", "extra eA==", "index 3"]
    assert lines[3:7] == [b64encode(each).decode() for each in proof_of(3).hashes]
    assert lines[7] == ""
    assert "\n".join(lines[8:]).encode() == DATA


def test_a_log_of_one_record_needs_no_hashes() -> None:
    head = sign_note(Checkpoint(ORIGIN, 1, LEAVES[0]).text, LOG.key, LOG.sign).to_bytes()
    proof = Proof(0, (), head)
    assert proof.to_bytes() == b"c2sp.org/tlog-proof@v1\nindex 0\n\n" + head
    assert verify_proof(parse_proof(proof.to_bytes()), LEAVES[0], LOG.key, keys.verify).size == 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"@v1", b"@v2"),
        (b"index 3", b"index 03"),
        (b"index 3", b"index -3"),
        (b"index 3\n", b""),
        (b"index 3", b"extra AAA\nindex 3"),
        (b"index 3", b"extra \nindex 3"),
        (b"index 3", b"extra eA==\nextra eA==\nindex 3"),
        (b"index 3", b"index 3\nAAAA"),
        (b"index 3", b"index 3\xff"),
        (b"\n\n", b"\n"),
    ],
)
def test_what_is_no_proof_is_refused(old: bytes, new: bytes) -> None:
    data = proof_of(3).to_bytes().replace(old, new)
    with pytest.raises(InvalidNote):
        verify_proof(parse_proof(data), LEAVES[3], LOG.key, keys.verify)


def test_a_proof_holds_for_its_own_record_and_index_only() -> None:
    for at in range(13):
        for other in range(13):
            if at != other:
                with pytest.raises(InvalidNote, match="does not lead"):
                    verify_proof(proof_of(at), LEAVES[other], LOG.key, keys.verify)
                moved = Proof(other, proof_of(at).hashes, DATA)
                with pytest.raises(InvalidNote, match="does not lead"):
                    verify_proof(moved, LEAVES[at], LOG.key, keys.verify)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode))
def test_rubbish_is_refused_and_never_breaks_anything(data: bytes) -> None:
    for parse in (parse_note, parse_proof):
        with pytest.raises(InvalidNote):
            parse(data)
    for text in (data.decode("latin-1"), data.decode("utf-8", "surrogateescape")):
        for read in (parse_vkey, parse_checkpoint):
            with pytest.raises(InvalidNote):
                read(text)
