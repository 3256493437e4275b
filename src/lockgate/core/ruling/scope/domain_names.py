"""What the last part of a dotted name says it is: a file, a machine, or either.

`TOP_LEVEL_DOMAINS` is the whole list of IANA. It decides only where a dotted name may well be something else, a module
or a column; where something connects, every name that is not a file's is a machine's.
"""

from __future__ import annotations

from lockgate.core.tables import read_words

# What only files end in, and what files and domains end in: such a name counts where something is fetched.
FILE_ENDINGS = frozenset(
    """
    txt json yaml yml toml xml html htm css js jsx ts tsx mjs cjs csv tsv log ini cfg conf lock pdf doc docx xls xlsx
    ppt pptx odt png jpg jpeg gif svg webp ico bmp mp3 mp4 wav avi mkv gz tgz tar bz2 xz rar whl egg jar war class java
    kt go rb php lua sql sqlite db bak tmp swp exe dll msi bin iso img deb rpm apk dmg pem crt csr key asc sig sum map
    out cpp hpp cxx vue scss less ipynb parquet npy pkl pyc pyi patch diff rst tex bib eml ics vcf plist env
    service socket timer orig rej cmd bat ps1 psd1 psm1 proto tfvars tfstate hcl jsonl ndjson gradle csproj sln xlsm
    """.split()
)
FILE_OR_DOMAIN_ENDINGS = frozenset(
    "sh py rs md pl cc so zip mov ps ml mm mk am in po tf ad as bz cs vb la st pm pub".split()
)
# Names that cannot be registered, and that machines have all the same.
PRIVATE_DOMAINS = frozenset("example test invalid localhost local lan internal intranet corp onion home".split())
# The endings that are hardly ever anything but a domain's: these count in the middle of a sentence.
COMMON_DOMAINS = PRIVATE_DOMAINS | frozenset(
    """
    com net org edu gov mil int arpa io dev ai co xyz top site online club shop tech cloud live store pro biz link click
    space website host press work zone world today network systems agency digital email services solutions company
    uk de fr nl eu ru cn jp us ca au ch at be br cz dk es fi gr hk hu ie il it kr lt lu lv mx no nz pl pt ro se sg si sk
    th tr tw ua za su ws tk cf ga gq pw cc tv icu buzz cyou cfd sbs monster
    """.split()
)
TOP_LEVEL_DOMAINS = PRIVATE_DOMAINS | frozenset(read_words(__package__, "top_level_domains.txt"))
