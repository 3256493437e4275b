"""The words by which a goal asks for a kind of effect."""

from __future__ import annotations

from time import process_time

import pytest

from lockgate.core.ruling.effects.effect import ASKED_BY, KINDS
from lockgate.core.ruling.goal import (
    forbidden_after,
    is_asked_by,
    wishes_in,
)


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
        "resize the volume instead of deleting it",
        "avoid deleting anything while you tidy up",
        "tell me if you can safely delete the volumes",
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


@pytest.mark.parametrize(
    "goal",
    ["Ana has no access to the repo", "Ana hat keinen Zugriff", "Ana no tiene acceso", "Ana doesn't have access"],
)
def test_who_has_no_access_shall_perhaps_get_it(goal: str) -> None:
    assert is_asked("grants-access", goal)
    assert not is_asked("grants-access", "give Ana no access")


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
writes-startup-file: start the sync on boot
installs-hook: run the tests on every commit / lance les tests à chaque commit
grants-access: add Ana to the team / add Bo as a member of the group / lade Tom ins Repo ein / onboard our two new hires
makes-key: we need a new API key for the bot / issue an access token / crée une clé pour l'API / 生成密钥
changes-permissions: set up a filter for mails of the bank
changes-permissions: make the folder writable for www-data / rendi pubblica la pagina
disables-check: ignore the certificate of the test host / merge it as admin / 关闭告警 / wyłącz zaporę
changes-login: Ana can't log in / 无法登录
deletes-data: terminate the idle instances / remove the preview environment / get rid of the old bucket / borra la tabla
deletes-branch: supprime les branches fusionnées / 删除分支
pays: Send $50 to Bob / give him 20 euros
pays: settle their bill / I owe Baz for lunch / zahl bitte die Gebühr / paie la facture / paga la factura / 付款
sends-message: translate it and mail them / e-mail it to all / Email these. / text her that I am late / post it
approves-payment: approve the expenses of May / process the refund requests / Genehmige die Spesen / 批准报销
approves-payment: pay the bills of Alder / release the payment to Alder / sign off Ana's expenses / approve INV-12
disables-check: silence HighMemory on db-3 for two hours / snooze the pager until six / create a silence for db-3
disables-check: put a maintenance window over everything tonight / the disk alert is noise, mute it
approves-change: merge PR 12 once it is green / review #7 and approve it / land the patch / merge #41 / ship it
approves-change: Merge the pull requests of dependabot / merge den PR / 合并这个请求 / approve both
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
sends-message: sum up the mail of today / fix the text of the page / sort my e-mails / list each post
sends-message: don't mail them
sends-message: book the room / cancel the follow up meeting / bestell den Tee / remember my number
writes-startup-file: start the Spring Boot app / run the spring boot tests
installs-hook: run the linter before you commit / list every commit since May
changes-pipeline: plan how we renovate the kitchen
changes-agent-file: call the Gemini API
grants-access: add the team page / add a member variable / onboard the new service / create a webhook handler
grants-access: gib mir die Rechte der Mieter / donne-moi les droits du locataire / опиши права потребителя
grants-access: unlock the cell / lade ein Bild der Karte / mach die rechte Spalte breiter / compare the compartments
makes-key: ignore certain files and generate a report / write docs for our API key format / fix the token expiry test
makes-key: fix the issue with the token count / replace the token in the tokenizer test
shares: teile mir das Ergebnis mit / fasse zwei Teile des Dokuments zusammen / sprawdź dostępność hotelu
changes-permissions: make parser.py more readable / sum up the privacy notice
changes-permissions: pubblica il post / filter my mail by sender
disables-check: ignore certain files / 关闭这个问题 / użyj wyłącznie tego pliku / stell die Liste ab Seite 3 zusammen
disables-check: skip the slow checks in the test run / bypass the cache in the helper
disables-check: merge the admin page / zet de resultaten uit in een grafiek
changes-login: redefine the constant / log in to the portal and fetch the bill
changes-login: put the key into the map / traduci ogni parola
writes-outside: fix the desktop layout / apporte-le au bureau
deletes-outside: delete the build folder / suggest what to do with the free space on the poster
deletes-data: eliminate the duplicate code / use destructuring / get rid of the warnings / escribe un borrador
deletes-data: remove the table from the README / remove all instances of the old name / set up a clean environment
deletes-data: upload the videos to the bucket / leg eine leere Tabelle an
deletes-data: terminate the loop / fix the teardown of the test
rewrites-history: sign off the mail with my name / reword the second paragraph
rewrites-history: fix the tests and push again / muestra el historial de compras
deletes-branch: list the stale branches / remove the tags from the HTML / delete the tag cloud
runs-as-root: restart the kernel of the notebook / create a superuser / find the root cause / list the root folder
reads-secret: fix the tokenizer / write our secretary / tokenize the text
rewrites-history: show the order history / use brute force
changes-login: reset the counter / recover the deleted row
writes-outside: fix the home page / home in on the bug
approves-payment: tell me which expenses I should approve / list the approved invoices / sum up the open refunds
approves-payment: check the invoices against the orders / send Ana the bill / say whether we should approve these
disables-check: acknowledge the alerts / say which alerts are noisy / tell me which monitors I should mute
approves-change: resolve the merge conflicts / sum up the merge requests / list the merged PRs / review PR 12
approves-change: list the approved PRs / tell me which PRs I should approve / build a landing page
approves-change: say if we should merge it / say whether this can be merged / track my shipment
pays: Give 3 examples of it / send 2 reminders to the team
pays: 購入履歴を表にして / owing to the rain the trip moved
pays: sum up the fee structure / subscribe me to the newsletter / haz la lista de la compra / charge the battery
"""


@pytest.mark.parametrize(("kind", "goal"), each_of(SAYS_OTHERWISE))
def test_a_word_with_another_meaning_asks_for_nothing(kind: str, goal: str) -> None:
    assert not is_asked(kind, goal)


def test_to_ask_for_one_kind_asks_for_no_graver_one() -> None:
    assert not is_asked("grants-access", "rotate the payment key")
    assert not is_asked("changes-permissions", "rotate the payment key")
    assert not is_asked("grants-access", "offboard Tom")
    assert not is_asked("deletes-data", "free up some space")
    assert not is_asked("rewrites-history", "delete the merged branches")
    assert not is_asked("deletes-branch", "force the push of my branch")


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


@pytest.mark.parametrize(
    ("kind", "goal"),
    [
        ("grants-access", "Unlock the front door for the cleaner"),
        ("grants-access", "open the garage, please"),
        ("grants-access", "Schließ bitte die Haustür auf"),
        ("disables-check", "Wake me at 7, cancel the old alarm"),
        ("disables-check", "Disarm it, I am home"),
    ],
)
def test_doors_and_alarms_are_asked_for_in_everyday_words(kind: str, goal: str) -> None:
    assert is_asked(kind, goal)


@pytest.mark.parametrize(
    ("kind", "goal"),
    [
        ("grants-access", "Open the report about the lobby"),
        ("grants-access", "Lock the front door"),
        ("grants-access", "Is the garage open?"),
        ("disables-check", "Set an alarm for 7"),
        ("disables-check", "Cancel my meeting on Monday"),
    ],
)
def test_other_words_about_doors_and_alarms_ask_for_no_such_thing(kind: str, goal: str) -> None:
    assert not is_asked(kind, goal)


ALL_DELETIONS = {"deletes-record", "deletes-data", "deletes-outside", "discards-work"}


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Put the best one in my cart. Don't order.", {"orders", "pays"}),
        ("Draft a reply to Ann but do not send it yet", {"sends-message"}),
        ("Tidy the inbox without deleting anything.", ALL_DELETIONS),
        ("commit, don't push", {"pushes"}),
        ("commit, don't push to main", set()),
        ("Don't delete anything else", set()),
        ("Don't send it to Bob, send it to Ann", set()),
        ("Draft a reply, don't send it. Then send Bob the summary.", set()),
        ("Order the lamp", set()),
        ("Sum up my email and draft answers. Don't send anything.", {"sends-message"}),
        ("Do not send any emails.", {"sends-message"}),
        ("You must not send it.", {"sends-message"}),
        ("Look up order 4711, then compare docks. Don't order any.", {"orders", "pays"}),
        ("Compare docks; don't buy anything without asking me", {"orders", "pays"}),
        ("Compare docks without placing an order", {"orders", "pays"}),
        ("Fix it, but don't commit or push anything.", {"pushes"}),
        ("Don't post, tweet or email it", {"publishes", "sends-message"}),
        ("Summarise my inbox. Make sure you don't send anything.", {"sends-message"}),
        ("Summarise my inbox. Just don't send anything.", {"sends-message"}),
        ("Summarise my inbox. You do not send anything.", {"sends-message"}),
        ("Summarise my inbox. I'd rather you don't send anything.", {"sends-message"}),
        ("Whatever happens do not send anything. Summarise my inbox.", {"sends-message"}),
        ("Summarise my inbox (really don't send anything)", {"sends-message"}),
        ("Summarise the mails do not send anything", {"sends-message"}),
        ("If the build passes do not push", {"pushes"}),
        ("Ann and Bob know why it hangs but don't restart it", {"changes-service"}),
        ("Look at payments-prod, but do not delete it.", ALL_DELETIONS),
        ("Count the rows in prod_orders; don't drop it.", {"deletes-data"}),
        ("Don't delete this, delete the copy", set()),
        ("Compare shoes. Do not order or buy anything from them.", {"orders", "pays"}),
        ("Read my mail. Do not send or email anyone.", {"sends-message"}),
        ("Never delete or remove mail of Ann", ALL_DELETIONS),
        # What is told, not bidden.
        ("The workers do not restart. Get them going.", set()),
        ("Find out why the invites do not send, and mend it.", set()),
        ("Remind the customers who don't pay.", set()),
        ("They don't send. Find out why.", set()),
        ("Get the workers going, the workers still don't restart.", set()),
        ("It hangs, and the pods that do not restart are old.", set()),
        ("The worker never restarts, it never restarts.", set()),
        ("Don't order from them, and don't order chairs.", set()),
    ],
)
def test_a_goal_may_forbid_a_kind_altogether(text: str, kinds: set[str]) -> None:
    assert forbidden_after(text) == kinds


def test_what_is_forbidden_may_be_asked_for_later() -> None:
    before = forbidden_after("Compare docks, don't order.")
    assert forbidden_after("Also look for cables.", before) == before
    assert forbidden_after("Fine, order the first one.", before) == set()


@pytest.mark.parametrize(
    "later",
    [
        "Go ahead and order.",
        "ok order it",
        "Can you order it?",
        "I want you to buy one",
        "Looks good, order them.",
        "Yes, place the order.",
        "Go ahead with the order",
        "Sounds good, go ahead and order",
        "Let's order it",
        "make a booking",
    ],
)
def test_an_act_that_is_bidden_later_is_free(later: str) -> None:
    assert forbidden_after(later, frozenset({"orders"})) == set()


@pytest.mark.parametrize(
    "later",
    [
        "Show me order 4711.",
        "Where is my order?",
        "Look at the order of rows",
        "thanks",
        "Show the invoice and order",
        "Bob's order came",
        "I'll make the order myself",
        "Bob will place the order",
        "Check the cart, order history and wishlist",
    ],
)
def test_a_thing_of_the_same_name_frees_nothing(later: str) -> None:
    assert forbidden_after(later, frozenset({"orders"})) == {"orders"}


@pytest.mark.parametrize(
    "piece", ["don't ", "don't order it ", "don't a, b", "the x ", "why it ", "order ", "and order x ", ". ", " "]
)
def test_what_is_forbidden_is_found_in_linear_time(piece: str) -> None:
    short, long = (_seconds_to_forbid(piece * (count // len(piece))) for count in (2_000, 16_000))
    assert long < 20 * short + 0.05


def _seconds_to_forbid(goal: str) -> float:
    start = process_time()
    forbidden_after(f"don't order{goal}")
    return process_time() - start
