"""`[[notify]]` is read closed: what is not known is refused, and a secret in it is refused and not repeated."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from placet.cli.failing import ConfigProblem
from placet.cli.notifying import announcements_of
from placet.model.destinations import (
    Announcements,
    Destination,
    EmailWay,
    MailSecurity,
    SecretPlace,
    SecretRef,
    SlackWay,
    WebhookWay,
)
from placet.model.issuers import Network
from placet.model.notices import NoticeKind
from placet.rules.announcements import DEFAULT_KINDS

FILE, FOLDER = Path("/project/placet.toml"), Path("/project")


def read(*tables: str, console_url: str | None = None) -> Announcements:
    document = tomllib.loads("".join(f"[[notify]]\n{table}\n" for table in tables))
    return announcements_of(document.get("notify"), console_url, file=FILE, folder=FOLDER)


def refusal(*tables: str, console_url: str | None = None) -> str:
    with pytest.raises(ConfigProblem) as caught:
        read(*tables, console_url=console_url)
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    return f"{caught.value} {caught.value.hint}"


WEBHOOK = 'name = "a"\nkind = "webhook"\nurl = "https://x.test/"\nsecrets = ["env:S"]\ntenants = ["acme"]\n'
SLACK = 'name = "a"\nkind = "slack"\nurl = "env:S"\ntenants = ["*"]\n'
EMAIL = (
    'name = "a"\nkind = "email"\nsmtp_host = "mail.test"\nfrom = "a@b.test"\nto = ["c@d.test"]\ntenants = ["acme"]\n'
)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (WEBHOOK.replace('"a"', '"A b"'), "needs a name"),
        (WEBHOOK.replace("webhook", "pigeon"), "'kind' in [[notify]] number 1"),
        (WEBHOOK + 'secret = "x"\n', "unknown member 'secret'"),
        (WEBHOOK.replace("env:S", "whsec_hunter2"), "a place of a secret"),
        (WEBHOOK.replace("env:S", "env:a b"), "a place of a secret"),
        (WEBHOOK.replace('["env:S"]', "[]"), "between one and 4 secrets"),
        (WEBHOOK.replace("https:", "http:"), "its address is not https"),
        (WEBHOOK.replace("https://x.test/", "https://hunter2@x.test/"), "names no host, or more than a host"),
        (WEBHOOK.replace('tenants = ["acme"]\n', ""), "needs the tenants"),
        (WEBHOOK + 'events = ["approval.wished"]\n', "'events' in [[notify]] number 1"),
        (WEBHOOK + 'events = ["test"]\n', "'events' in [[notify]] number 1"),
        (WEBHOOK + 'to = ["a@b.test"]\n', "unknown member 'to'"),
        (SLACK.replace("env:S", "https://hooks.slack.test/hunter2"), "a place of a secret"),
        (EMAIL.replace('["c@d.test"]', "[]"), "between one and 20 recipients"),
        (EMAIL.replace("c@d.test", "c@d.test\\r\\nBcc: x@y.test"), "plain addresses"),
        (EMAIL + 'tls = "none"\n', "on this host alone"),
        (EMAIL + 'smtp_user = "u"\n', "go together"),
        (EMAIL + 'smtp_user = "u"\nsmtp_password = "hunter2"\n', "a place of a secret"),
        (EMAIL + "smtp_port = 70000\n", "a port"),
        (WEBHOOK + "\n[[notify]]\n" + SLACK, "have the same name"),
    ],
)
def test_what_cannot_be_used_is_refused_and_no_secret_repeated(table: str, said: str) -> None:
    told = refusal(*table.split("[[notify]]"))

    assert said in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    "url",
    [
        "http://ops.example.com/console",
        "https://ops.example.com/console?next=",
        "https://a@b.test/",
        "javascript:alert(1)",
        "https://",
        "ops.example.com",
        "https://ops.example.com/../x",
        "https://ops.example.com/<b>",
        "https://ops.example.com/a b",
        f"https://ops.example.com/{'x' * 500}",
    ],
)
def test_messages_link_to_no_odd_place(url: str) -> None:
    assert "console_url is no address" in refusal(console_url=url)


def test_messages_link_to_https_and_to_this_host() -> None:
    for url in ("https://ops.example.com/console", "http://127.0.0.1:8420/console/", "http://localhost/console"):
        assert read(console_url=url).console_url == url


def test_each_kind_of_destination_is_read() -> None:
    (ref,) = (SecretRef(place=SecretPlace.ENVIRONMENT, name="S"),)
    webhook = WEBHOOK.replace('"env:S"', '"env:S", "file:keys/hook"') + 'events = ["stop", "effect.unknown"]\n'
    slack = SLACK.replace('"a"', '"b"') + 'network = "private"\n'
    email = (
        EMAIL.replace('"a"', '"c"', 1)
        + 'tls = "implicit"\nsmtp_user = "u"\nsmtp_password = "env:S"\nca_file = "ca.pem"\n'
    )

    assert read(webhook, slack, email).destinations == (
        Destination(
            name="a",
            kinds=frozenset({NoticeKind.STOP_BEGUN, NoticeKind.STOP_LIFTED, NoticeKind.EFFECT_UNKNOWN}),
            tenants=frozenset({"acme"}),
            way=WebhookWay(
                url="https://x.test/",
                secrets=(ref, SecretRef(place=SecretPlace.FILE, name="/project/keys/hook")),
            ),
        ),
        Destination(
            name="b", kinds=DEFAULT_KINDS, tenants=frozenset({"*"}), way=SlackWay(url=ref, network=Network.PRIVATE)
        ),
        Destination(
            name="c",
            kinds=DEFAULT_KINDS,
            tenants=frozenset({"acme"}),
            way=EmailWay(
                host="mail.test",
                port=465,
                sender="a@b.test",
                recipients=("c@d.test",),
                security=MailSecurity.IMPLICIT,
                user="u",
                password=ref,
                ca_file=Path("/project/ca.pem"),
            ),
        ),
    )


def test_without_a_word_of_events_it_is_what_a_person_has_to_do_something_about() -> None:
    assert sorted(kind.value for kind in DEFAULT_KINDS) == [
        "alarm.approval_suspect",
        "alarm.credential_suspect",
        "alarm.grant_suspect",
        "alarm.pin_suspect",
        "alarm.record_altered",
        "approval.asked",
        "approval.escalated",
        "approval.reminded",
        "effect.unknown",
        "tool.quarantined",
    ]


def test_the_next_step_of_a_destination_that_is_wrong_is_a_destination_and_not_another_project() -> None:
    for tables in ([{"name": "a"}], [{"kind": "webhook", "events": 5}], "a", ["a"], [{"kind": "slack", "url": "x"}]):
        with pytest.raises(ConfigProblem) as caught:
            announcements_of(tables, None, file=FILE, folder=FOLDER)
        assert "[[notify]], name =" in caught.value.hint and "init" not in caught.value.hint


def test_notify_is_a_list_of_tables() -> None:
    with pytest.raises(ConfigProblem, match=r"\[\[notify\]\]"):
        announcements_of({"name": "a"}, None, file=FILE, folder=FOLDER)


def test_there_are_at_most_fifty_destinations() -> None:
    tables = [WEBHOOK.replace('"a"', f'"a{number}"') for number in range(51)]
    assert len(read(*tables[:50]).destinations) == 50
    assert "at most 50" in refusal(*tables)


@pytest.mark.parametrize("host", ["mail test", "-mail.test", "mail.test:25", "mail/test", "mail.test\\u0000"])
def test_a_mail_server_is_the_name_or_the_address_of_a_host(host: str) -> None:
    assert "the name of a host" in refusal(EMAIL.replace("mail.test", host))


@pytest.mark.parametrize("host", ["mail.test", "10.0.0.7", "::1", "fd00::7"])
def test_a_mail_server_may_be_inside(host: str) -> None:
    (found,) = read(EMAIL.replace("mail.test", host)).destinations
    assert isinstance(found.way, EmailWay) and found.way.host == host


def test_nobody_signs_in_where_nothing_is_encrypted() -> None:
    table = EMAIL.replace("mail.test", "127.0.0.1") + 'tls = "none"\n'
    assert read(table).destinations
    assert "with TLS" in refusal(table + 'smtp_user = "u"\nsmtp_password = "env:S"\n')
