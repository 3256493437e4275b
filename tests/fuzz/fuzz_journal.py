"""Fuzz target: any bytes as a record, note, key, proof or export are one, in its only spelling, or are refused."""

from __future__ import annotations

from contextlib import suppress
from io import BytesIO

from driver import fuzz, instrumented

with instrumented():
    from lockgate.core.errors import InvalidNote, InvalidRecord
    from lockgate.journal.exports import HEADER, read_export
    from lockgate.journal.log_audit import AuditedShard, audit
    from lockgate.journal.record import encode_record, parse_record
    from lockgate.journal.signed_notes import PublicKey, parse_checkpoint, parse_note, parse_proof, parse_vkey

NOTE = (
    b"example.com/a\n2\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    b"\xe2\x80\x94 example.com/a Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo"
    b"+zyWE+xeMcTOAYQ8=\n"
)
RECORD = (
    b'{"first":2,"kind":"gap","last":4,"reason":"journal-unavailable","run":"0123456789abcdef",'
    b'"salt":"00000000000000000000000000000000","seq":5,"ts_ms":1,"v":1}'
)
PRUNE = (
    b'{"before":1,"kind":"prune","origin":"example.com/a","retention_days":30,"run":"0123456789abcdef",'
    b'"salt":"00000000000000000000000000000000","seq":1,"ts_ms":1,"v":1,"who":"\xc3\xa9\\n"}'
)
VKEY = b"PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
SEEDS = [
    RECORD,
    PRUNE,
    NOTE,
    VKEY,
    b"c2sp.org/tlog-proof@v1\nindex 1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n" + NOTE,
    HEADER + b"\n" + NOTE + b"\n" + RECORD + b"\n" + PRUNE + b"\n",
    HEADER + b"\n" + NOTE + b"\n- CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n" + PRUNE + b"\n",
]
KEY = PublicKey("example.com/a", bytes(32))


def one_input(data: bytes) -> None:
    with suppress(InvalidRecord):
        assert encode_record(parse_record(data)) == data
    with suppress(InvalidNote):
        note = parse_note(data)
        assert note.to_bytes() == data
        assert parse_checkpoint(note.text).text == note.text
    with suppress(InvalidNote):
        assert parse_proof(data).to_bytes() == data
    with suppress(InvalidNote):
        text = data.decode("utf-8", "replace").strip()
        assert parse_vkey(text).vkey == text
    with suppress(InvalidNote):
        checkpoint, rows = read_export(BytesIO(data))
        # With signatures that all hold: whatever else is in the file, the audit says something, and nothing breaks.
        report = audit([AuditedShard(rows, [checkpoint])], KEY, lambda *_: True, held=[checkpoint])
        assert all("\n" not in fault.message for fault in report.faults)


if __name__ == "__main__":
    fuzz(one_input, SEEDS)
