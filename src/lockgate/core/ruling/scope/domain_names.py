"""What the last part of a dotted name says it is: a file, a machine, or either; and what the names of arguments say.

`TOP_LEVEL_DOMAINS` is the whole list of IANA. It decides only where a dotted name may well be something else, a module
or a column; where something connects, every name that is not a file's is a machine's.
"""

from __future__ import annotations

from lockgate.core.tables import read_table, read_words

_ROWS = read_table(__package__, "names.tbl", "names", ("group", "words"))
WORDS = {
    group: frozenset(word for other, words in _ROWS if other == group for word in words.split()) for group, _ in _ROWS
}
FILE_ENDINGS, FILE_OR_DOMAIN_ENDINGS = WORDS["files"], WORDS["files or domains"]
PRIVATE_DOMAINS = WORDS["private"]
COMMON_DOMAINS = PRIVATE_DOMAINS | WORDS["common"]
TOP_LEVEL_DOMAINS = PRIVATE_DOMAINS | frozenset(read_words(__package__, "top_level_domains.txt"))
