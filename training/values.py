"""Values for the slots of the banks: names, addresses, numbers. The same slot has the same value throughout a session."""

from __future__ import annotations

import random
import re
import string

SLOT = re.compile(r"\{([a-z]+)([1-9])\}")

FIRST = "Ada Aiko Amara Anton Bela Carmen Chidi Dalia Demir Edda Elif Emre Fatou Felix Greta Hana Hugo Ines Ivo Jana Jorge Kaya Lena Liam Mateo Mei Nadia Noor Olga Omar Pavel Priya Quinn Rosa Ruben Sanna Tariq Uma Vera Wim Xenia Yara Zoe".split()
LAST = "Abara Almeida Bakker Bergman Castillo Dvorak Eriksen Fontaine Gallo Haddad Ilves Jansen Kowalski Lindqvist Moreau Nakata Okafor Petrov Quist Romero Sato Tanaka Ueda Vargas Weiss Yilmaz Zeman".split()
COMPANY = "Aldgate Tools|Northgate Water|Meridian Foods|Saltmarsh Media|Corvus Legal|Helix Dental|Ironbridge Steel|Pelican Books|Stellar Print|Birchwood Care|Monsoon Textiles|Redwall Security|Lakeside Bikes|Argent Finance|Foundry Coffee|Trellis Gardens|Windrush Ferries|Copperfield Cables|Sunbeam Nursery|Opal Events|Keystone Roofing|Mistral Sails|Hawthorn Realty|Pinnacle Sports|Willowbrook Farm|Zenith Lighting|Cascade Plumbing|Granary Bread|Harbourview Hotel|Beacon Couriers|Halden Freight|Brightwater Labs|Orchard & Pine|Cobalt Works|Nordlicht Energie|Kestrel Air|Blue Fern Clinic|Marlow Estates|Tessera Software|Quarry Bank|Lumen Optics|Ridgeway School|Atlas Catering|Fjord Insurance|Sable Motors|Juniper Travel|Cedar Hosting|Vela Telecom".split(
    "|"
)
STRANGE = "nova-port|bluegate|swiftdock|corelane|packbase|metricly|trustlane|cloudnest|docuhub|logstream|bytefarm|openquay|linkyard|syncroom|datawell|portside|keyhouse|formpoint|netparcel|infralab|quickdesk|stackpost|devcorner|shiplane|audithub|deskflow|paylane|signpoint|mailroom|recordbay|delta-sync|clearpath-ops|qx-relay|pineforward|mirrorvault|north-intake|opsbridge|zenlift|datapier|fastqueue|greyfinch|tallybox".split(
    "|"
)
TLD = "com net org io dev eu co.uk de app info cloud xyz biz shop".split()
CITY = "Porto Lyon Graz Aarhus Turku Bilbao Gdansk Leeds Tampa Osaka Quito Pune Accra Izmir".split()
STREET = "Harbour Road|Mill Lane|Lindenweg|Rue des Pins|Calle Sur|Station Street|Oak Avenue|Kirkegata|Via Verde".split(
    "|"
)
PRODUCT = "desk lamp|wireless keyboard|espresso machine|trail shoes|winter jacket|noise meter|garden hose|bike helmet|router|office chair|camera lens|water filter".split(
    "|"
)
TITLE = "Quarterly figures|Onboarding plan|Roof repair|Trip to the coast|Release notes|Budget draft|Grant proposal|Menu for June|Meeting minutes|Inventory".split(
    "|"
)
WORDS = "acorn alder anchor apple arrow aspen badger barley beacon birch bramble breeze brook candle canyon cherry cinder clover coral crane cricket crystal cypress daisy dune eagle echo elder fern flint forest fox garnet ginger glacier granite hazel heron hollow honey iris ivory jasper kite lagoon lantern larch laurel lemon linden lotus lynx magnet marble meadow meteor mint mosaic moss myrtle nimbus oak olive onyx orbit otter oyster pearl pepper petal pine plum poppy prairie prism quail raven reed ridge robin rowan saffron salmon sequoia shale slate sorrel sparrow spruce stone summit sunset swift tamarind teal thistle timber topaz trout tundra vale violet walnut wave wren amber basil cedar delta ember fable grove harbor indigo juniper kelp lilac maple nectar opal pebble quartz river sage tulip umber velvet willow yarrow zephyr".split()
PACKAGED = "parser cache client cli kit tools http auth format store queue date schema types lint test".split()
KNOWN = "requests pandas polars httpx pytest ruff black numpy flask django fastapi pydantic lodash express vite eslint prettier zod axios react redis sqlalchemy rich typer click serde tokio libpq-dev ffmpeg jq cmake".split()
AGENTS = "assistant agent AI bot copilot helper model".split()
VENDORS = "the vendor|the platform|your provider|the host of this service|the help desk".split("|")


class Slots:
    """Values for the slots of one session: the same slot has the same value throughout."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.values: dict[str, str] = {}

    def fill(self, text: str) -> str:
        text = text.replace("{{", "\0").replace("}}", "\1")
        text = SLOT.sub(lambda found: self.value(found[1], int(found[2])), text)
        return (
            text.replace("{agent}", self.chance.choice(AGENTS))
            .replace("{vendor}", self.chance.choice(VENDORS))
            .replace("\0", "{")
            .replace("\1", "}")
        )

    def value(self, kind: str, number: int) -> str:
        name = f"{kind}{number}"
        if name not in self.values:
            self.values[name] = self._made(kind, number)
        return self.values[name]

    def _made(self, kind: str, number: int) -> str:
        one, strange = self.chance, number >= 7

        def digits(count: int) -> str:
            return "".join(one.choice(string.digits) for _ in range(count))

        match kind:
            case "first":
                return one.choice(FIRST)
            case "name":
                return f"{self.value('first', number)} {one.choice(LAST)}"
            case "company":
                return one.choice(COMPANY)
            case "domain":
                # From one pool for all: a stranger must not be known by the look of an address.
                named = re.sub(r"[^a-z]", "", self.value("company", number).lower())
                base = one.choice(
                    [named, one.choice(STRANGE), f"{one.choice(WORDS)}{one.choice(['', '-'])}{one.choice(WORDS)}"]
                )
                return f"{base}{one.choice(['', '', digits(2), '-' + one.choice(WORDS)])}.{one.choice(TLD)}"
            case "email":
                first, *rest = self.value("name", number).lower().split()
                local = one.choice(
                    [
                        f"{first}.{rest[-1]}",
                        first,
                        f"{first[0]}{rest[-1]}",
                        one.choice(WORDS) + digits(2),
                        "info",
                        "office",
                        "support",
                        f"{rest[-1]}{digits(2)}",
                    ]
                )
                return f"{local}@{self.value('domain', number)}"
            case "url":
                path = one.choice(
                    [
                        "",
                        "/" + one.choice(WORDS),
                        f"/{one.choice(WORDS)}/{digits(4)}",
                        f"/{one.choice(WORDS)}?id={digits(3)}",
                    ]
                )
                return f"{one.choice(['https://', 'https://', 'http://', 'https://www.', 'www.'])}{self.value('domain', number)}{path}"
            case "path":
                return (
                    one.choice(
                        ["/home/{u}/", "~/", "/srv/data/", "docs/", "/var/lib/{u}/", "C:\\Users\\{u}\\", "projects/"]
                    ).replace("{u}", self.value("user", number))
                    + one.choice(WORDS)
                    + one.choice(["", "/" + one.choice(WORDS), ".txt", ".csv", ".json", ".md"])
                )
            case "file":
                return (
                    f"{one.choice(WORDS)}-{digits(2)}.{one.choice(['pdf', 'docx', 'xlsx', 'txt', 'md', 'csv', 'py'])}"
                )
            case "id":
                return one.choice(
                    [
                        f"{one.choice(string.ascii_uppercase)}{one.choice(string.ascii_uppercase)}-{digits(5)}",
                        digits(6),
                        f"#{digits(4)}",
                        f"{one.choice(WORDS)}-{digits(3)}",
                    ]
                )
            case "amount":
                return one.choice(
                    [
                        f"{one.randint(5, 9800)}.{digits(2)}",
                        f"EUR {one.randint(20, 9000)}",
                        f"${one.randint(10, 5000)}",
                        f"{one.randint(2, 900)} euros",
                        f"{one.randint(1, 99)},{digits(3)}.00",
                    ]
                )
            case "date":
                return one.choice(
                    [
                        f"{one.randint(1, 28)} {one.choice('January February March April May June July September October November'.split())}",
                        f"202{one.randint(5, 7)}-0{one.randint(1, 9)}-{one.randint(10, 28)}",
                        f"{one.randint(1, 28)}.{one.randint(1, 12)}.",
                        f"next {one.choice('Monday Tuesday Thursday Friday'.split())}",
                    ]
                )
            case "time":
                return one.choice(
                    [
                        f"{one.randint(8, 18)}:{one.choice(['00', '15', '30', '45'])}",
                        f"{one.randint(1, 11)} {one.choice(['am', 'pm'])}",
                    ]
                )
            case "phone":
                return one.choice(
                    [
                        f"+{one.randint(20, 99)} {digits(3)} {digits(6)}",
                        f"0{digits(3)} {digits(7)}",
                        f"({digits(3)}) {digits(3)}-{digits(4)}",
                    ]
                )
            case "iban":
                return (
                    one.choice(["NL", "PT", "FI", "AT", "ES", "PL", "IE", "NO"])
                    + digits(2)
                    + one.choice(["", " "]).join([digits(4), digits(4), digits(4), digits(2)])
                )
            case "city":
                return one.choice(CITY)
            case "address":
                return f"{one.randint(1, 240)} {one.choice(STREET)}, {self.value('city', number)}"
            case "secret":
                return one.choice(
                    [
                        "the access token",
                        "the recovery codes",
                        "the customer list",
                        "the contents of the vault",
                        "all saved passwords",
                        "the private key",
                        "the payroll sheet",
                        "the chat history",
                        "the API credentials",
                        "the medical file",
                        "last month's statements",
                        "the source code",
                        "the two-factor code",
                    ]
                )
            case "code":
                return one.choice(
                    [
                        f"curl -s {self.value('url', number)} | sh",
                        f"rm -rf {self.value('path', number)}",
                        f"scp {self.value('path', number)} {self.value('user', number)}@{self.value('host', number)}:",
                        f"wget {self.value('url', number)} -O /tmp/{one.choice(WORDS)}",
                        f"git push {self.value('url', number)} --all",
                        f"chmod 777 {self.value('path', number)}",
                        f"npm install {one.choice(WORDS)}-{one.choice(STRANGE)}",
                    ]
                )
            case "product":
                return one.choice(PRODUCT)
            case "repo":
                return f"{one.choice(WORDS)}-{one.choice(['api', 'tools', 'site', 'core', 'client', 'infra'])}"
            case "host":
                return f"{one.choice(WORDS)}{digits(1)}.{self.value('domain', number)}"
            case "user":
                return one.choice(FIRST).lower() + one.choice(["", digits(2)])
            case "title":
                return one.choice(TITLE)
            case "otp":
                return digits(one.choice([4, 6, 6, 8]))
            case "pass":
                return one.choice(
                    [
                        f"{one.choice(WORDS)}.{digits(3)}",
                        f"{one.choice(WORDS).title()}{digits(2)}!",
                        f"{one.choice(WORDS)}-{one.choice(WORDS)}-{digits(2)}",
                        "".join(one.choice(string.ascii_letters + string.digits) for _ in range(12)),
                    ]
                )
            case "token":
                return one.choice(["", "tk_", "key-"]) + "".join(
                    one.choice("abcdef" + string.digits) for _ in range(one.choice([8, 16, 32]))
                )
            case "blob":
                return "".join(
                    one.choice(string.ascii_letters + string.digits + "+/") for _ in range(one.choice([64, 120, 200]))
                )
            case "pkg":
                return one.choice(
                    [
                        f"{one.choice(WORDS)}{one.choice(['', '-', 'py', 'js', 'lib'])}{one.choice(PACKAGED)}".strip(
                            "-"
                        ),
                        f"{one.choice(PACKAGED)}-{one.choice(WORDS)}",
                        f"@{one.choice(WORDS)}/{one.choice(PACKAGED)}",
                        *([] if strange else KNOWN),
                    ]
                )
            case "svc":
                return f"{one.choice(WORDS)}-{one.choice('api web worker gateway auth queue mail search'.split())}"
            case "table":
                return one.choice(
                    "orders invoices sessions tickets notes payments contacts shipments".split()
                ) + one.choice(["", "_old", "_2025", "_archive"])
            case "branch":
                return one.choice(["fix", "feature", "chore", "release"]) + one.choice("/-") + one.choice(WORDS)
            case "ver":
                return f"{one.randint(0, 9)}.{one.randint(0, 20)}" + one.choice(["", f".{one.randint(0, 9)}"])
            case "word":
                return one.choice(WORDS)
            case "bucket":
                return f"{one.choice(WORDS)}-{one.choice('backup public assets logs media data'.split())}" + one.choice(
                    ["", "-eu", digits(2)]
                )
            case "key":
                return f"{one.choice(['OPS', 'WEB', 'INF', 'CORE', 'APP'])}-{one.randint(2, 4000)}"
            case "num":
                return str(one.randint(2, 9900))
            case "sum":
                return f"{one.randint(2, 900)}.{digits(2)}"
            case "chan":
                return f"#{one.choice(WORDS)}" + one.choice(["", "-team", "-ops", "-help"])
            case "ip":
                return f"{one.choice([10, 172, 185, 203, 91])}.{one.randint(0, 255)}.{one.randint(0, 255)}.{one.randint(1, 254)}"
        raise ValueError(f"no slot is called {kind}")
