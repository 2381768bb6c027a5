"""`placet api-keys`: made, listed, rotated and revoked by people with leave; the text is shown once, kept nowhere."""

import asyncio
import json
import re
import sqlite3
from pathlib import Path

import pytest

from placet.adapters.clock import SystemClock
from placet.adapters.telemetry.quiet import QuietMeter
from placet.bootstrap.sign_in import front_doors
from placet.bootstrap.stores import open_existing_store
from placet.errors import SignInRefused
from placet.model.admission import Admission
from placet.model.principal import Principal

from .conftest import CONFIG, ME

TEXT = re.compile(r"placet_[0-9a-f]{24}_[0-9a-f]{72}\n")


@pytest.fixture
def bureau(project):
    """A project whose person may manage keys."""
    config = CONFIG.format(me=ME, scopes=json.dumps(["api_keys.manage"]))
    (project.folder / "placet.toml").write_text(config)
    return project


def at_the_door(project, text: str) -> Principal | str:
    """Who it is for a front door of the same store, or the code of its refusal."""

    async def look() -> Principal | str:
        keys, store = open_existing_store(project.folder / "placet.db")
        doors = front_doors(Admission(), store=store, keys=keys, clock=SystemClock(), meter=QuietMeter())
        try:
            return await doors.sign_in.principal_of(text.strip())
        except SignInRefused as refused:
            return refused.code
        finally:
            await doors.close()
            await store.close()

    return asyncio.run(look())


def listed(project, *words: str) -> list[dict]:
    return project.run("api-keys", "list", *words, "--json").data["api-keys"]


def test_a_key_is_printed_once_alone_and_opens_the_door(bureau) -> None:
    made = bureau.run("api-keys", "create", "bot", "--role", "operator", "--scope", "a.b", "--scope", "c")

    assert made.code == 0 and TEXT.fullmatch(made.out)
    assert made.out.strip() not in made.err and "only time" in made.err
    assert at_the_door(bureau, made.out) == Principal.agent(
        "bot", tenant="acme", roles=["operator"], scopes=["a.b", "c"]
    )
    (row,) = listed(bureau)
    assert (row["subject"], row["state"], row["roles"], row["scopes"]) == ("bot", "usable", ["operator"], ["a.b", "c"])
    assert row["created_by"] == ME and row["used_at"] is not None
    table = bureau.run("api-keys", "list")
    assert row["api_key_id"] in table.out and made.out.strip() not in table.out


def test_no_file_and_no_stream_has_the_text_afterwards(bureau) -> None:
    made = bureau.run("api-keys", "create", "bot", "--json").data
    secret = made["text"].split("_")[2]
    at_the_door(bureau, made["text"])
    said = [bureau.run(*words) for words in (
        ("api-keys", "list", "--all"), ("api-keys", "list", "--jsonl"), ("audit", "tail"), ("audit", "verify"),
        ("keys", "list"), ("doctor",), ("config", "show"), ("api-keys", "rotate", made["text"]),
        ("api-keys", "revoke", made["text"]),
    )]  # fmt: skip

    assert all(made["text"] not in ran.out + ran.err and secret not in ran.out + ran.err for ran in said)
    for file in bureau.folder.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes() and bytes.fromhex(secret) not in file.read_bytes(), file


def test_a_rotated_key_goes_on_for_a_while_and_a_revoked_one_does_not(bureau) -> None:
    old = bureau.run("api-keys", "create", "bot", "--json").data
    new = bureau.run("api-keys", "rotate", old["api_key_id"], "--json").data
    assert (new["rotated_from"], new["subject"]) == (old["api_key_id"], "bot")
    assert [at_the_door(bureau, each["text"]) for each in (old, new)] == [Principal.agent("bot", tenant="acme")] * 2

    revoked = bureau.run("api-keys", "revoke", old["api_key_id"])

    assert revoked.code == 0 and new["api_key_id"] in revoked.err
    assert at_the_door(bureau, old["text"]) == "sign_in_refused"
    assert at_the_door(bureau, new["text"]) == Principal.agent("bot", tenant="acme")
    assert [row["state"] for row in listed(bureau)] == ["usable"]
    assert sorted(row["state"] for row in listed(bureau, "--all")) == ["revoked", "usable"]
    now = bureau.run("api-keys", "rotate", new["api_key_id"], "--overlap", "0")
    assert now.code == 0 and at_the_door(bureau, new["text"]) == "sign_in_expired"
    kinds = [json.loads(line)["kind"] for line in bureau.run("audit", "tail", "--jsonl").out.splitlines()]
    assert [kind for kind in kinds if kind.startswith("api_key")] == [
        "api_key_created", "api_key_rotated", "api_key_revoked", "api_key_rotated",
    ]  # fmt: skip
    assert bureau.run("audit", "verify").code == 0


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("create", "bot", "--role", "king"), 2),
        (("create", "bot", "--expires", "soon"), 2),
        (("create", "bot", "--expires", "401d"), 2),
        (("create", "b" * 129), 2),
        (("create",), 2),
        (("rotate", "none"), 1),
        (("revoke", "none"), 1),
        (("rotate", "none", "--overlap", "-1"), 2),
        (("rotate", "none", "--overlap", "31d"), 2),
    ],
)
def test_what_means_nothing_changes_nothing(bureau, words, code) -> None:
    ran = bureau.run("api-keys", *words)

    assert ran.code == code and ran.out == "" and ran.err
    assert listed(bureau, "--all") == []


def test_whoever_lacks_the_scope_or_is_not_listed_is_refused(project) -> None:
    for people, code in ((CONFIG.format(me=ME, scopes='["approvals.decide"]'), 4), ("[placet]\n", 4)):
        (project.folder / "placet.toml").write_text(people)
        for words in (("create", "bot"), ("list",), ("rotate", "x"), ("revoke", "x")):
            ran = project.run("api-keys", *words)
            assert (ran.code, ran.out) == (code, ""), ran.err
    assert "api_keys.manage" in project.run("api-keys", "list").err or "[people" in project.run("api-keys", "list").err


def test_an_altered_key_is_pointed_out_and_removed(bureau) -> None:
    made = bureau.run("api-keys", "create", "bot", "--json").data
    connection = sqlite3.connect(bureau.folder / "placet.db")
    with connection:
        connection.execute("UPDATE credentials SET body = replace(body, 'viewer', 'admin')")
    connection.close()

    assert at_the_door(bureau, made["text"]) == "sign_in_refused"
    ran = bureau.run("api-keys", "list")

    assert "altered" in ran.out and "who can write the store" in ran.err
    assert bureau.run("api-keys", "revoke", made["api_key_id"]).out.startswith("removed")
    assert listed(bureau, "--all") == []


def test_a_retired_store_key_is_told_of_the_api_keys_that_go_with_it(bureau) -> None:
    made = bureau.run("api-keys", "create", "bot", "--json").data
    old = bureau.run("keys", "list", "--json").data["keys"][0]["key_id"]
    assert bureau.run("keys", "rotate").code == 0
    assert at_the_door(bureau, made["text"]) == Principal.agent("bot", tenant="acme"), "an old key still verifies"

    refused = bureau.run("keys", "retire", old)
    assert refused.code != 0 and "1 api_keys" in refused.err and "--losing api_keys" in refused.err
    assert bureau.run("keys", "retire", old, "--losing", "api_keys").code == 0

    assert at_the_door(bureau, made["text"]) == "sign_in_refused"
    assert [row["state"] for row in listed(bureau)] == ["key_retired"]
    assert bureau.run("api-keys", "revoke", made["api_key_id"]).code == 0
    assert bureau.run("audit", "verify").code == 0


def test_without_a_store_nothing_is_made(project) -> None:
    (project.folder / "placet.toml").write_text(CONFIG.format(me=ME, scopes='["api_keys.manage"]'))
    Path(project.folder / "placet.db").unlink(missing_ok=True)
    ran = project.run("api-keys", "create", "bot")

    assert ran.code != 0 and ran.out == ""
    assert not (project.folder / "placet.db").exists()
