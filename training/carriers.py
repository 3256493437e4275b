"""Ordinary texts without end, for strangers' words to be put into: records as tools print them, and mail.

Records are of invented kinds: a handful of fields drawn from many, in one of the shapes that programs write. What a
record is about, and what it looks like, must say nothing about whether a planted order stands in it.
"""

from __future__ import annotations

import csv
import io
import json
import random
import re

import compose
from values import Slots

# Fields, each with what stands in it; a `|` between choices, `#` for a digit, slots as in the banks.
KINDS: dict[str, dict[str, str]] = {
    "letters": {
        "from": "{email1}|{name1} <{email1}>|noreply@{domain1}",
        "to": "{email2}|['{email2}', '{email3}']",
        "copy": "[]|{email4}",
        "title": "{title1}|Re: {title2}|Your receipt|Welcome",
        "received": "{date1} {time1}|{date2}T{time2}:##",
        "files": "[]|['##']|{file1}",
        "folder": "inbox|archive|sent",
        "seen": "true|false",
        "flags": "[]|starred",
        "number": "##|####",
        "hidden_copy": "[]|null",
        "state": "new|delivered|sent",
    },
    "orders": {
        "order": "{id1}|A-#####",
        "item": "{product1}",
        "pieces": "#|##",
        "price": "{amount1}",
        "shipped": "{date1}|null",
        "carrier": "post|courier|pick-up",
        "customer": "{name1}",
        "address": "{address1}, {city1}",
        "paid": "true|false",
        "voucher": "null|{id3}",
        "tax": "#.##",
        "returned": "false",
    },
    "goods": {
        "name": "{product1}|{product2} deluxe",
        "brand": "{company1}",
        "stock": "##|0",
        "rating": "#.#",
        "price": "##.##|{amount2}",
        "category": "home|outdoor|office|kitchen",
        "weight_g": "###",
        "colour": "green|black|sand|blue",
        "sku": "{id3}",
        "discontinued": "false|true",
        "image": "{url1}/##.jpg",
    },
    "payments": {
        "id": "{id1}",
        "account": "{iban1}",
        "amount": "{amount1}|-##.##",
        "date": "{date1}",
        "counterparty": "{company1}|{name1}",
        "currency": "EUR|USD|GBP",
        "kind": "card|transfer|debit",
        "booked": "true|pending",
        "balance_after": "####.##",
        "reference": "{id3}|rent|{id2}",
    },
    "people": {
        "name": "{name1}",
        "mail": "{email1}",
        "phone": "{phone1}",
        "city": "{city1}",
        "role": "editor|guest|owner|buyer",
        "joined": "{date1}",
        "team": "north|sales|lab|desk",
        "manager": "{name2}",
        "active": "yes|no",
        "login": "{user1}",
    },
    "events": {
        "title": "{title1}|Lunch with {first1}|Stand-up",
        "starts": "{date1} {time1}",
        "ends": "{date1} {time2}",
        "place": "{address1}|room ##|online",
        "guests": "['{email1}', '{email2}']|[]",
        "organiser": "{name1}",
        "repeats": "never|weekly",
        "reminder_min": "##",
        "uid": "{id1}",
        "status": "confirmed|cancelled|tentative",
    },
    "tickets": {
        "ticket": "#####",
        "reporter": "{user1}",
        "priority": "low|normal|high",
        "state": "open|closed|waiting",
        "product": "{product1}",
        "version": "#.#.#",
        "opened": "{date1}",
        "assignee": "{first2}|nobody",  # quoted
        "labels": "bug|question|docs",
        "votes": "##",
    },
    "files": {
        "path": "{path1}",
        "size": "#### B|## KB",
        "owner": "{user1}",
        "changed": "{date1} {time1}",
        "mode": "rw-r--r--|0644",
        "mime": "text/plain|application/pdf|image/png",
        "id": "##",
        "shared_with": "{{}}|{{'{email1}': 'read'}}",
        "checksum": "{id3}",
        "name": "{file1}",
    },
    "hosts": {
        "host": "{host1}",
        "load": "#.##",
        "uptime_days": "###",
        "region": "eu-west|us-2|ap-1",
        "disk_free": "##%",
        "kernel": "#.##.#",
        "service": "web|queue|db",
        "healthy": "true|false",
        "last_deploy": "{date1}",
        "ip": "10.#.##.#",
        "errors_5m": "0|#|##",
    },
    "trips": {
        "hotel": "{company1} Inn|Hotel {city1}",
        "city": "{city1}",
        "nights": "#",
        "stars": "#",
        "price_per_night": "{amount1}",
        "breakfast": "included|extra",
        "address": "{address1}",
        "check_in": "{date1}",
        "check_out": "{date2}",
        "rooms_left": "#",
        "code": "{id3}",
        "distance_km": "#.#",
        "flight": "KX###",
    },
    "homes": {
        "device": "lamp|heating|door|blind|camera",
        "room": "kitchen|hall|cellar|study",
        "on": "true|false",
        "level": "##",
        "battery": "##%",
        "last_seen": "{time1}",
        "firmware": "#.#",
        "temperature": "2#.#",
    },
    "health": {
        "patient": "{name1}",
        "visit": "{date1}",
        "doctor": "Dr {name2}",
        "pulse": "7#",
        "next": "{date2}",
        "insurance": "{company1}",
        "file": "{id1}",
        "unit": "mg|ml",
        "dose": "##",
    },
    "courses": {
        "course": "{title1}",
        "teacher": "{name1}",
        "room": "###",
        "seats": "##",
        "grade": "A|B|2+",
        "term": "spring|autumn",
        "student": "{name2}",
        "credits": "#",
        "deadline": "{date1}",
    },
    "feeds": {
        "headline": "{title1} in {city1}|{company1} opens in {city2}",
        "author": "{name1}",
        "url": "{url1}",
        "published": "{date1}",
        "views": "####",
        "section": "local|business|sport",
        "likes": "##",
        "lang": "en|de|fr",
    },
    "jobs": {
        "build": "####",
        "branch": "main|fix/{id3}",
        "result": "passed|failed|skipped",
        "seconds": "###",
        "commit": "{id3}",
        "runner": "linux-#",
        "step": "lint|test|pack",
        "repo": "{repo1}",
        "author": "{user1}",
    },
    "weather": {
        "station": "{city1}",
        "high": "2#",
        "low": "1#",
        "wind_kmh": "##",
        "rain_mm": "#.#",
        "sky": "clear|cloudy|fog",
        "day": "{date1}",
        "sunrise": "0#:##",
        "humidity": "##%",
    },
    "stocks": {
        "symbol": "{id3}",
        "last": "###.##",
        "change": "-#.##|+#.##",
        "volume": "######",
        "high52": "###.##",
        "name": "{company1}",
        "sector": "energy|retail|chips",
        "dividend": "#.#",
        "held": "##",
    },
    "parcels": {
        "tracking": "{id1}",
        "status": "in transit|delivered|at the depot",
        "depot": "{city1}",
        "eta": "{date1}",
        "weight": "#.# kg",
        "sender": "{company1}",
        "signed_by": "{name1}|null",
        "window": "{time1}-{time2}",
    },
    "members": {
        "member": "{name1}",
        "plan": "basic|family|pro",
        "renews": "{date1}",
        "points": "####",
        "mail": "{email1}",
        "card": "**** ####",
        "since": "20##",
        "newsletter": "yes|no",
        "code": "{id3}",
    },
    "chats": {
        "channel": "general|random|ops|{city1}",
        "who": "{user1}|{first1}",
        "at": "{time1}",
        "reactions": "[]|:+1: #",
        "thread": "{id1}|null",
        "edited": "false|true",
        "pinned": "no",
    },
}
# Where people's own words stand in a record.
FREE = "note text body description comment summary details message bio review remarks about content memo reason".split()
# What programs and shops write there all day.
NOTICES = [
    "Your code for {company1} is ######. It is valid for ten minutes.", "Your one-time code: ######", "{amount1} was charged to the card ending in ####.",
    "A payment of {amount1} from {name1} has arrived.", "Thank you for your order {id1}. It leaves our warehouse tomorrow.", "The invoice for {id1} is attached.",
    "Your parcel {id1} was delivered at {time1}.", "You have a new follower: {user1}.", "{name1} shared the folder {path1} with you.", "Your subscription renews on {date1}.",
    "The password of your account was changed on {date1}. If that was not you, contact support.", "Welcome to {company1}! We are glad that you are here.",
    "Meeting moved to {time1}, same room.", "Backup finished without errors.", "If you have any questions, just reply to this message.", "See you on {date1}, {first1}",
    "Hi {first1}, thanks for the figures. I had a look and they seem fine to me. Best, {first2}", "The balance of {iban1} is now {amount1}.", "You are receiving this because you turned on notifications.",
    "Happy birthday, {first1}! All the best from the whole team.", "Great quality and fast delivery, would buy again.", "Too small for me, but the colour is nice.", "The battery lasts about two days.",
    "We had a lovely stay, the staff were kind and the beds comfortable.", "Attached are the files from last week.", "Reminder to myself: call the bank about the fee of {amount1}.",
    "Dear {name1}, your appointment is on {date1} at {time1}. Bring your card, please.", "No changes since the last release.", "Can you send me the report again? I cannot find it. Thanks, {first2}",
    "Could you buy milk on the way home? I'll pay you back.", "I would like to invite you to our summer party on {date1}. Let me know whether you can come!", "Refund of {amount1} for {id1} issued.",
    "Sign in with the user name {user1} and the password {secret1} that we agreed on.", "Let's talk about {title1} tomorrow. I have prepared some slides.", "Rent for the flat in {address1}.",
    "Sent with care by {company1}, {address1}, {city1}. Unsubscribe at any time.", "Please find the details in the attached file.", "Ticket closed, the customer was satisfied.",
    "The heating in the hall is out of order again; a technician is on the way.", "Total for {date1}: ## pieces, {amount1}.", "- milk\n- bread\n- two lemons\n- stamps", "1. {title1}\n2. {title2}\n3. Any other business",
    "Out of office until {date1}. In urgent cases call {name2}, {phone1}.", "Your table for # people is booked for {time1}.", "This is an automated message, replies are not read.",
]  # fmt: skip


def _value(said: str, slots: Slots) -> str:
    said = slots.chance.choice(said.split("|"))
    return re.sub("#", lambda _: str(slots.chance.randrange(10)), slots.fill(said))


def _typed(text: str) -> object:
    """As a program would hold it: a number, a truth value, a list, or words."""
    try:
        return {"true": True, "false": False, "null": None, "[]": [], "{}": {}}[text]
    except KeyError:
        return (float(text) if "." in text else int(text)) if re.fullmatch(r"-?[1-9]\d*(\.\d+)?", text) else text


def notice(slots: Slots) -> str:
    return _value(slots.chance.choice(NOTICES).replace("|", "/"), slots)


def record(chance: random.Random, said: list[str]) -> tuple[str, str]:
    """Records of one kind, as text, and the kind. Each of `said` stands in a free field of one of them."""
    kind = chance.choice(list(KINDS))
    names = chance.sample(list(KINDS[kind]), chance.randint(3, min(9, len(KINDS[kind]))))
    free = chance.choice(FREE)
    many = max(len(said), chance.choice([1, 1, 1, 2, 3, 5]))
    words = [*said, *[""] * (many - len(said))]
    chance.shuffle(words)
    if chance.random() < 0.4:
        names.sort()
    at, rows = chance.randrange(len(names) + 1), []
    for text in words:
        slots = Slots(chance)
        fields = {name: _typed(_value(KINDS[kind][name], slots)) for name in names}
        pairs = list(fields.items())
        pairs.insert(at, (free, text or (notice(slots) if chance.random() < 0.8 else "")))
        rows.append(dict(pairs))
    return shaped(rows, chance), kind


def shaped(rows: list[dict[str, object]], chance: random.Random) -> str:
    one = rows[0] if len(rows) == 1 and chance.random() < 0.7 else rows
    match chance.randrange(13):
        case 0 | 1 | 2:
            return _yaml(rows, single=one is rows[0], chance=chance)
        case 3:
            return json.dumps(one, indent=chance.choice([2, 4]))
        case 4 | 5:
            return json.dumps(one, ensure_ascii=False)
        case 6 | 7:
            return repr(one)
        case 8:
            out = io.StringIO()
            writer = csv.DictWriter(out, list(rows[0]), delimiter=chance.choice([",", ";", "\t"]))
            writer.writeheader()
            writer.writerows(rows)
            return out.getvalue()
        case 9:
            return "\n".join(
                chance.choice(["|", " | "]).join(f"{k.upper()}: {v}" for k, v in row.items()) for row in rows
            )
        case 10:
            tag = chance.choice(["row", "item", "entry"])
            return "\n".join(
                f"<{tag}>" + "".join(f"<{k}>{v}</{k}>" for k, v in row.items()) + f"</{tag}>" for row in rows
            )
        case 11:
            lines = ["| " + " | ".join(map(str, row.values())) + " |" for row in rows]
            return "\n".join(["| " + " | ".join(rows[0]) + " |", "|" + "---|" * len(rows[0]), *lines])
    return "\n\n".join("\n".join(f"{k.replace('_', ' ').capitalize()}: {v}" for k, v in row.items()) for row in rows)


def _yaml(rows: list[dict[str, object]], *, single: bool, chance: random.Random) -> str:
    """The way YAML writers do it, with their quotes and their long lines broken."""
    width, out = chance.choice([70, 80, 120]), []
    for row in rows:
        for number, (key, value) in enumerate(row.items()):
            said = json.dumps(value) if not isinstance(value, str) else value
            if isinstance(value, str) and re.search(r"[:#'\n\[{]|^\W|^\d", value):
                said = "'" + value.replace("'", "''").replace("\n", "\n\n  ") + "'"
            line, lines = "", []
            for word in f"{key}: {said}".split(" "):
                if len(line) + len(word) > width:
                    lines.append(line)
                    line = "  " + word
                else:
                    line = f"{line} {word}" if line else word
            lines.append(line)
            head = "" if single else "- " if number == 0 else "  "
            out.append(head + ("\n" + ("" if single else "  ")).join(lines))
    return "\n".join(out)


# --- mail


def mails(chance: random.Random, count: int) -> list[str]:
    """Letters in our own words, with heads as a reader sees them and their slots filled anew."""
    bodies: list[str] = compose.read("letters.toml")["bodies"]  # type: ignore[assignment]
    made = []
    for number in range(count):
        slots = Slots(chance)
        own = [slots.fill(bodies[(number + more) % len(bodies)]) for more in range(chance.choice([1, 1, 1, 2]))]
        head = slots.fill("From: {name3} <{email3}>\nTo: {email4}\nSubject: {title1}\nDate: {date3}")
        made.append(f"{head}\n\0" + chance.choice(["\n\n", "\n--\n", "\n> "]).join(own))
    return made


def mail(chance: random.Random, listed: list[str]) -> str:
    """A passage of one of them: its beginning with the head, or some part of it."""
    head, _, body = chance.choice(listed).partition("\0")
    room = chance.choice([200, 350, 500, 700])
    at = 0 if chance.random() < 0.6 else chance.randrange(max(1, len(body) - room))
    body = body[at : at + room]
    match chance.randrange(6):
        case 0 | 1:
            return body
        case 2:
            return "|".join([*(line.replace(": ", "=", 1) for line in head.strip().split("\n")), f"BODY={body}"])
        case 3:
            return json.dumps({"head": head.strip().split("\n"), "text": body})
    return f"{head}\n{body}"


def between(text: str, put: str, chance: random.Random) -> str:
    """`put` at the beginning, at the end, or between two lines or sentences."""
    places = [found.end() for found in re.finditer(r"\n|[.!?;] ", text)]
    at = chance.choice([0, len(text), *chance.choices(places or [0, len(text)], k=4)])
    gap = chance.choice([" ", "\n", "\n", "\n\n"])
    return f"{text[:at].rstrip(' ')}{gap if at else ''}{put}{gap}{text[at:].lstrip(' ')}".strip()
