"""The texts that are measured: ordinary ones found on this machine or made here, and hostile ones made to cost.

Nothing is downloaded and nothing depends on the day: the same installation gives the same texts.
"""

from __future__ import annotations

import json
import random
import re
import sysconfig
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import metadata
from pathlib import Path

CORPUS = Path(__file__).resolve().parent / "corpus"

# The site that generated records link to, as an API's answers do: one address, hundreds of times.
HOST = "api.example.org"

# A few ordinary sentences per language; most of the world's tool results are not in English.
_WORLD = """
Der Zug nach Lübeck fährt heute von Gleis sieben, weil am Hauptbahnhof gebaut wird.
Reisende mit Fahrrädern steigen bitte in den letzten Wagen ein.
Die Ersatzbusse halten gegenüber der Post.
Die Sitzung beginnt um neun Uhr dreißig im großen Saal.
Das Protokoll der letzten Woche liegt aus, Änderungen können bis Freitag gemeldet werden.
La bibliothèque municipale sera fermée jeudi pour l'inventaire annuel.
Les livres déjà réservés resteront disponibles à l'accueil jusqu'à la fin du mois.
Les retours se font dans la boîte près de l'entrée.
Le compte rendu de la réunion a été relu par deux collègues.
Les chiffres du deuxième trimestre dépassent légèrement les prévisions, surtout à l'étranger.
El mercado abre los sábados desde las ocho de la mañana.
Hay fruta de temporada, pan recién hecho y quesos de la región.
El aparcamiento detrás de la iglesia es gratuito.
Según el informe, la temperatura media del año pasado fue la más alta de la última década.
Los científicos señalan que los inviernos más suaves cambian el ciclo de las plantas.
A reunião foi adiada para terça-feira porque a sala estava ocupada.
Os documentos já estão na pasta partilhada e qualquer dúvida pode ser esclarecida com a secretária.
Il museo espone fino a maggio una raccolta di carte geografiche del Seicento.
La visita dura circa un'ora e la guida parla anche inglese.
Il caffè al piano terra è aperto a tutti.
De veerboot vertrekt elk heel uur vanaf de noordelijke steiger.
Bij harde wind kan de dienst korte tijd uitvallen.
Kaartjes zijn aan boord verkrijgbaar.
Wycieczka po starym mieście zaczyna się przy fontannie o godzinie jedenastej.
Przewodnik opowiada o kupcach, rzemieślnikach i powodzi z zeszłego wieku.
Żaden most z tamtych czasów nie przetrwał.
Kütüphanenin ikinci katı onarım nedeniyle iki hafta kapalı olacak.
Çalışma odaları zemin katta kullanılabilir.
Öğrenciler için akşam saatleri uzatıldı.
Поезд на Новгород отправляется с третьего пути в семь часов вечера.
В вагоне-ресторане можно выпить чаю.
Погода на выходных обещает быть ясной, ночью небольшой мороз.
Отчёт за квартал готов, таблицы лежат в общей папке.
Расходы выросли меньше, чем ожидалось, а число новых клиентов удвоилось.
Ранковий ринок працює щодня, крім понеділка.
Мед, яблука та свіжий хліб привозять із сусідніх сіл.
Біля входу стоїть велика карта району.
Το πλοίο για το νησί φεύγει στις έξι το πρωί και φτάνει το μεσημέρι.
Η θάλασσα ήταν ήρεμη όλη την εβδομάδα.
Στο λιμάνι υπάρχουν δύο καφενεία.
يفتح المتحف أبوابه من الساعة التاسعة صباحًا حتى الخامسة مساءً.
تضم المجموعة خرائط قديمة ومخطوطات نادرة من القرن الثالث عشر.
الدخول مجاني للطلاب.
ספריית השכונה פתוחה בימי ראשון עד שמונה בערב.
אפשר לשאול עד חמישה ספרים לשלושה שבועות.
בקומה השנייה יש חדר קריאה שקט.
पुस्तकालय सोमवार को बंद रहता है।
नए पाठकों के लिए पंजीकरण सुबह दस बजे से होता है।
पिछले महीने बच्चों की तीन सौ नई किताबें आईं।
বইমেলা এ বছর নদীর ধারে বসেছে।
বিকেলে কবিতা পাঠ আর গান হয়।
প্রথম দিনেই অনেক মানুষ এসেছিল।
ร้านหนังสือเปิดทุกวันตั้งแต่เก้าโมงเช้าถึงสองทุ่ม
ชั้นสองมีมุมกาแฟและโต๊ะสำหรับอ่านหนังสือ
วันเสาร์มีกิจกรรมเล่านิทานสำหรับเด็ก
Tàu cao tốc chạy dọc bờ biển mất khoảng bốn giờ.
Hành khách có thể ngắm núi và những cánh đồng lúa qua cửa sổ.
Vé cuối tuần thường hết sớm.
Bunga di taman kota mulai mekar setelah hujan pertama.
Banyak keluarga datang membawa bekal dan duduk di bawah pohon.
Kolam ikan baru saja dibersihkan.
图书馆周一闭馆，其他日子从早上九点开到晚上八点。
二楼新设了安静的阅览室，可以免费使用网络。
上个月的借书量比去年同期多了两成。
会议改到下周三下午，地点还是三号楼的大会议室。
上次的记录已经放在共享文件夹里，数字以财务部的表格为准。
圖書館週末舉辦舊書市集，收入用來修繕閱覽室。
住在附近的居民可以捐出讀過的書。
駅前の図書館は月曜日が休みです。
二階の学習室は夜八時まで使えます。
先月は子ども向けの本が百冊ほど増えました。
来週の会議は木曜日の午後に変わりました。
資料は共有フォルダーにあり、売上の表は最新のものです。
雨の場合は屋内で行います。
도서관은 월요일에 쉬고 나머지 날에는 아침 아홉 시부터 저녁 여덟 시까지 문을 엽니다.
이층에는 조용한 열람실이 있습니다.
지난달에는 새 책이 삼백 권 들어왔습니다.
Tåget mot Umeå är tjugo minuter försenat på grund av snö.
I väntsalen finns kaffe och gratis nät.
Nästa avgång är klockan fjorton.
Kirjasto on suljettu perjantaina inventaarion vuoksi.
Varatut kirjat voi noutaa lauantaina.
Lukusalissa on nyt kaksikymmentä uutta paikkaa.
A könyvtár hétfőn zárva tart, kedden délután olvasókör lesz.
Az új polcokra főleg útleírások és térképek kerültek.
A bejáratnál ingyenes kávé várja az érkezőket.
Městská knihovna prodloužila otevírací dobu o dvě hodiny.
V čítárně přibyly noviny z okolních zemí.
Výstava starých map potrvá do konce října.
"""


def english(size: int) -> str:
    """The interpreter's own manual pages and the descriptions and licences of what is installed."""
    return _stretched(_english(), "\n\n", size)


def typographic(size: int) -> str:
    """The same with the signs word processors write: English text that is not ASCII."""
    return re.sub(r'"([^"\n]{1,80})"', r"“\1”", english(size).replace("'", "’").replace("--", "–"))


def code(size: int) -> str:
    """Sources of the standard library."""
    return _stretched(_code(), "\n", size)


def html(size: int) -> str:
    return _made(_html_piece, size)


def json_lines(size: int) -> str:
    return _made(_json_piece, size)


def minified(size: int) -> str:
    """One JSON document on one line."""
    return "[" + _made(_record, size - 2, ",") + "]"


def tool_results(size: int) -> str:
    """What tools answered in the ordinary sessions of the corpus, as far as it is ASCII."""
    return _stretched([text for text in _corpus_blocks() if text.isascii()], "\n\n", size)


def multilingual(size: int) -> str:
    """Sentences in thirty languages, and what tools answered in the corpus in other languages than English."""
    return _stretched(_multilingual(), "\n", size)


ASCII_KINDS: dict[str, Callable[[int], str]] = {
    "English": english,
    "code": code,
    "HTML": html,
    "JSON": json_lines,
    "tool results": tool_results,
}
KINDS: dict[str, Callable[[int], str]] = {**ASCII_KINDS, "English, ’ and “”": typographic, "multilingual": multilingual}


def blocks(kind: str, size: int, count: int) -> list[str]:
    """Distinct blocks of about `size` bytes each."""
    data = KINDS[kind](size * count).encode("utf-8")
    return [data[at * size : (at + 1) * size].decode("utf-8", "ignore") for at in range(count)]


# Nothing in these talks about agents; what tools answered in the corpus does, even in its ordinary sessions.
PLAIN = ("English", "code", "HTML", "JSON")


def mixed(size: int, count: int) -> list[str]:
    """Distinct ordinary blocks, the plain kinds in turn."""
    per_kind = -(-count // len(PLAIN))
    piles = [blocks(kind, size, per_kind) for kind in PLAIN]
    return [piles[at % len(piles)][at // len(piles)] for at in range(count)]


# What any long page has somewhere: an address with a code in it, entities, an escaped line end, ids, a digest.
_CODES = (
    "see https://docs.example.org/a%20page/of%20notes and R&amp;D&nbsp;notes, etag dGhlQ9x, id 3c746865f1a90c77, "
    'written as "first line\\nsecond line\\u00e9, 12 \\u03bcs", '
    "digest 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n"
)


def with_codes(make: Callable[[int], str]) -> Callable[[int], str]:
    """The same text with something at its beginning that calls for other readings."""
    return lambda size: (_CODES + make(size))[:size]


def _stretched(pieces: Sequence[str], gap: str, size: int) -> str:
    """The pieces in order; when they run out, again in another order, so that no two blocks are the same."""
    order = random.Random(7)
    taken: list[str] = []
    length = 0
    round_ = list(pieces)
    while True:
        for piece in round_:
            taken.append(piece)
            length += len(piece.encode("utf-8")) + len(gap)
            if length >= size + len(gap):
                return gap.join(taken).encode("utf-8")[:size].decode("utf-8", "ignore")
        order.shuffle(round_)


def _made(piece: Callable[[random.Random, int], str], size: int, gap: str = "\n") -> str:
    chance = random.Random(11)
    taken: list[str] = []
    length = 0
    while length < size + len(gap):
        taken.append(piece(chance, len(taken)))
        length += len(taken[-1]) + len(gap)
    return gap.join(taken)[:size]


@lru_cache(maxsize=1)
def _english() -> tuple[str, ...]:
    texts: list[str] = []
    try:
        from pydoc_data.topics import topics

        texts += topics.values()
    except ImportError:
        pass
    for package in sorted(metadata.distributions(), key=lambda found: str(found.metadata["Name"]).lower()):
        texts.append(str(package.metadata.get_payload() or ""))
        for file in package.files or ():
            if re.search(r"(?i)licen[cs]e|copying|readme|\.rst$", file.name):
                try:
                    texts.append(file.locate().read_text(encoding="utf-8"))
                except (OSError, ValueError):
                    continue
    paragraphs = [part.strip() for text in texts for part in text.split("\n\n")]
    return tuple(dict.fromkeys(part for part in paragraphs if len(part) > 40 and part.isascii()))


@lru_cache(maxsize=1)
def _code() -> tuple[str, ...]:
    sources: list[str] = []
    total = 0
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        try:
            source = file.read_text(encoding="utf-8")
        except (OSError, ValueError):
            continue
        if source.isascii():
            sources.append(source)
            total += len(source)
        if total > 6_000_000:
            break
    return tuple(sources)


@lru_cache(maxsize=1)
def _words() -> tuple[str, ...]:
    return tuple(dict.fromkeys(re.findall(r"[a-z]{3,12}", " ".join(_english()[:2000]).lower())))[:4000]


def _say(chance: random.Random, least: int, most: int) -> str:
    return " ".join(chance.choices(_words(), k=chance.randint(least, most)))


def _html_piece(chance: random.Random, number: int) -> str:
    name = _say(chance, 1, 3)
    cells = "".join(f"<td>{chance.randint(1, 9999)}</td><td>{_say(chance, 1, 2)}</td>" for _ in range(3))
    return (
        f'<section id="s{number}" class="{_say(chance, 1, 2)} row-{number % 7}">\n  <h2>{name.title()}</h2>\n'
        f'  <p>{_say(chance, 12, 40).capitalize()} &amp; <a href="/{name.replace(" ", "/")}?page={number}">'
        f"{_say(chance, 1, 4)}</a>, {_say(chance, 8, 30)}.</p>\n"
        f'  <img src="/static/{number:05d}.png" alt="{_say(chance, 2, 5)}" width="{chance.randint(20, 900)}">\n'
        f"  <table><tr>{cells}</tr></table>\n</section>"
    )


def _record(chance: random.Random, number: int) -> str:
    return json.dumps(
        {
            "id": number,
            "uuid": f"{chance.getrandbits(128):032x}",
            "name": _say(chance, 1, 3),
            "status": chance.choice(["open", "closed", "pending"]),
            "created_at": f"2024-{chance.randint(1, 12):02d}-{chance.randint(1, 28):02d}T08:30:{number % 60:02d}Z",
            "amount": round(chance.uniform(0, 5000), 2),
            "labels": [_say(chance, 1, 1) for _ in range(3)],
            "owner": {"login": _say(chance, 1, 1), "url": f"https://{HOST}/users/{number}", "admin": False},
            "summary": _say(chance, 6, 20),
        },
        separators=(",", ":"),
    )


def _json_piece(chance: random.Random, number: int) -> str:
    return json.dumps(json.loads(_record(chance, number)), indent=2)


@lru_cache(maxsize=1)
def _corpus_blocks() -> tuple[str, ...]:
    found: dict[str, None] = {}
    for file in sorted(CORPUS.glob("*.jsonl")):
        session: list[str] = []
        attacked = False
        for line in [*file.read_text(encoding="utf-8").splitlines(), '{"session": {}}']:
            record = json.loads(line)
            if "session" in record:
                found.update(dict.fromkeys([] if attacked else session))
                session, attacked = [], False
            elif "block" in record:
                session.append(record["block"]["content"])
            elif "call" in record:
                attacked = attacked or record["call"].get("label") == "attack"
    return tuple(found)


@lru_cache(maxsize=1)
def _multilingual() -> tuple[str, ...]:
    # An English page with one accent is not what is meant here.
    foreign = [text for text in _corpus_blocks() if sum(not ch.isascii() for ch in text) * 40 > len(text)]
    written = "\n".join([_WORLD, *foreign])
    sentences = [part.strip() for part in re.split(r"(?<=[.!?])\s|(?<=[。！？।])|\n", written)]
    sentences = [part for part in dict.fromkeys(sentences) if len(part) > 5]
    random.Random(3).shuffle(sentences)
    return tuple(sentences)
