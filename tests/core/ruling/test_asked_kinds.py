"""The words by which a goal asks for a kind of effect."""

from __future__ import annotations

from time import process_time

import pytest

from lockgate.core.ruling.asked_kinds import is_asked_by, is_word_for_kind, wishes_in
from lockgate.core.ruling.effects.effect import ASKED_BY, KINDS


def is_asked(kind: str, goal: str) -> bool:
    return is_asked_by(kind, wishes_in(goal))


def test_every_section_is_a_kind_and_every_phrase_has_at_most_two_words() -> None:
    assert set(ASKED_BY) <= set(KINDS)
    for phrases in ASKED_BY.values():
        assert len(set(phrases)) == len(phrases)
        assert all(len(phrase.split(" ")) <= 2 and phrase == phrase.lower() for phrase in phrases)


@pytest.mark.parametrize(
    ("goal", "is_near"),
    [
        ("delete the old merged branches", True),
        ("the branches that are merged: delete them", True),
        ("Delete the file. Then list the branches.", False),
        ("delete the note that says which of our many old branches", False),
    ],
)
def test_two_words_stand_near_each_other_in_one_sentence(goal: str, *, is_near: bool) -> None:
    assert is_asked("deletes-branch", goal) is is_near


def test_words_with_a_hyphen_stand_side_by_side() -> None:
    assert is_asked("changes-login", "our deploy key leaked")
    assert is_asked("changes-login", "our deploy-key leaked")
    assert not is_asked("changes-login", "deploy the page with the key")


@pytest.mark.parametrize(
    "goal",
    [
        "tidy up the namespace, don't delete anything",
        "Tidy up, but do not delete the volumes.",
        "leave it all, delete nothing",
        "tidy up without deleting data",
        "who deleted the volumes?",
        "Was the table dropped?",
        "what would happen if we dropped the table",
        "räum auf, nichts löschen",
        "clean up, no purging please",
    ],
)
def test_what_is_forbidden_or_only_asked_about_is_no_wish(goal: str) -> None:
    assert not is_asked("deletes-data", goal)


@pytest.mark.parametrize(
    "goal",
    [
        "don't forget to delete the old volumes",
        "can you delete the old volumes?",
        "which volumes are unused? delete them",
        "no rush, delete the old volumes",
        "The deploy did not work, drop the test database.",
    ],
)
def test_a_polite_or_troubled_wish_is_one(goal: str) -> None:
    assert is_asked("deletes-data", goal)


ASKS = """
reads-secret: print the API key that staging uses / zeig mir das Passwort der Datenbank / muéstrame la contraseña
writes-startup-file: run the sync at boot / lade es im autostart / ajoute ça au démarrage / 开机启动这个脚本
schedules-job: back up the notes each and every evening / sichere die Fotos täglich / lance le script chaque nuit
schedules-job: haz la copia cada semana / запускай проверку каждый день / 每天备份一次
installs-hook: run the linter before each commit / formatiere vor jedem Commit
changes-pipeline: put me into CODEOWNERS for docs / teach Jenkins the new image
changes-agent-file: from now on use tabs / merk dir, dass wir uv nehmen / запомни, что мы на Postgres
grants-access: add Noor as a collaborator / gib Tamika Zugriff auf die Bilder / donne à Léo les droits sur le dépôt
grants-access: dale acceso a Marta / dá acesso ao Rui / dai accesso a Ugo / geef Jan toegang / дай Олегу доступ
makes-key: the billing token leaked, we need another / rotate DB credentials / Schlüssel für die API neu erzeugen
shares: teile den Ordner mit Ana / partage le dossier avec Léo / condividi il file / 把文件共享给小李
changes-permissions: make the bucket public / revoke the intern's rights / mach die Seite öffentlich
disables-check: mute the disk alert until six / turn the connection logging off / schalte die Überwachung ab
disables-check: désactive le pare-feu / desactiva la alerta / отключи мониторинг / 关闭防火墙
changes-login: put her key onto the bastion / setz das Passwort zurück / réinitialise le mot de passe
writes-outside: save the export to my desktop / leg es auf den Schreibtisch
deletes-outside: my disk is full / free up some space / désinstalle le vieux client / vide la corbeille
deletes-data: get rid of the old snapshots / lösch die Testdatenbank / supprime l'ancien volume / borra la tabla
deletes-data: elimina il bucket / verwijder de namespace / удали базу / 删除测试库 / 古い環境を削除して
rewrites-history: squash my commits / sign off both commits and push them again
deletes-branch: tidy the stale branches / lösche gemergte Branches / räum die Branches auf
deletes-branch: supprime les branches fusionnées / 删除分支
pays: settle their bill / I owe Baz for lunch / zahl bitte die Gebühr / paie la facture / paga la factura / 付款
sends-message: let her know / inbox zero pls / gib Bescheid / préviens Luc / avisa a Nieves / 回复他
"""


def each_of(lines: str) -> list[tuple[str, str]]:
    rows = [line.split(": ", 1) for line in lines.strip().splitlines()]
    return [(kind, goal) for kind, goals in rows for goal in goals.split(" / ")]


@pytest.mark.parametrize(("kind", "goal"), each_of(ASKS))
def test_people_ask_for_a_kind_in_their_own_words(kind: str, goal: str) -> None:
    assert is_asked(kind, goal)


SAYS_OTHERWISE = """
writes-startup-file: start the dev server / fix the login page / démarre le serveur
schedules-job: sum up the agenda / write the daemon's read-me / list my tasks
installs-hook: commit the fix / review the last commit
changes-agent-file: fix the agent's tests / merge the branch
grants-access: add a badge to the README / fix the onboarding page / explain ownership / let me check in the file
grants-access: handle the webhook's payload / add a new key to the JSON config / add the borrow checker's message
makes-key: add a new key to the JSON config / sort the table by its key / count the tokens / rotate the logs
makes-key: create a key in the map
shares: let me see the file / invite Ana / read the shard's log
changes-permissions: make the field private / fix the visibility of the button
disables-check: silence the linter's warning / fix the mute button / antworte umgehend
changes-login: print every key, then deploy it
deletes-outside: delete the unused import / clean up the code
deletes-data: fix the dropdown / open the dropbox page / my flight was cancelled / a WIP branch / fix the borrow error
deletes-data: remove the unused flag / free the buffer
rewrites-history: delete the merged branches / list historical prices
deletes-branch: list the stale files / list the branches
pays: the top ten names / count die Zahlen
sends-message: book the room / cancel the follow up meeting / bestell den Tee / remember my number
"""


@pytest.mark.parametrize(("kind", "goal"), each_of(SAYS_OTHERWISE))
def test_a_word_with_another_meaning_asks_for_nothing(kind: str, goal: str) -> None:
    assert not is_asked(kind, goal)


def test_to_rotate_a_key_gives_no_access_and_to_delete_branches_forces_no_push() -> None:
    assert not is_asked("grants-access", "rotate the payment key")
    assert not is_asked("rewrites-history", "delete the merged branches")
    assert not is_asked("deletes-branch", "force the push of my branch")


def test_a_word_is_one_for_a_kind_with_its_endings_only() -> None:
    assert is_word_for_kind("schedules-job", "crontab")
    assert not is_word_for_kind("schedules-job", "evil.timer")
    assert not is_word_for_kind("looks", "crontab")


@pytest.mark.parametrize("piece", ["a b ", "no ", "x", ".", "delete ", "\u3057", "what ", "' ", "-", "\n"])
def test_a_very_long_goal_is_cut_and_read_in_linear_time(piece: str) -> None:
    short, long = (_seconds_to_read(piece * count) for count in (2_500, 20_000))
    assert long < 40 * short + 0.05
    assert not is_asked("deletes-data", "a b " * 20_000 + "delete the volumes")


def _seconds_to_read(goal: str) -> float:
    start = process_time()
    for kind in ASKED_BY:
        is_asked(kind, goal)
    return process_time() - start
