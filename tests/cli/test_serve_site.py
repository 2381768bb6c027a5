"""`placet serve` as `[serve]` says: behind a name, with people who come through an issuer and are sent away again."""

from __future__ import annotations

import json
import shutil
import signal
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from placet.model.serving import Certificate
from placet.serve.tls import tls_of
from tests.adapters.identity.provider import CLIENT, SECRET, LocalProvider
from tests.certificates import write_certificate
from tests.cli.conftest import CONFIG, ME, PATIENCE_SECONDS, SCOPES, Process, Project

HERE = "https://desk.example"
PROXY, OTHERS = "127.0.0.1", "127.0.0.2"
SITE = """
[serve]
port = 0
public_url = "https://desk.example"
trusted_proxies = ["127.0.0.1"]
metrics = "127.0.0.1:0"

[[sign_in.issuers]]
issuer = "{issuer}"
audience = "placet-api"
network = "loopback"
tenant = "acme"
standing = "person"
person_if = {{ amr = ["mfa"] }}
subject_prefix = "id:"
scopes = ["approvals.decide", "audit.read"]

[sign_in.issuers.console]
name = "staff"
client_id = "placet-console"
client_secret = "file:client"
sign_out_there = true
"""


@dataclass
class Site:
    """A project that is served behind a name, and the provider that people come through."""

    project: Project
    provider: LocalProvider
    process: Process
    url: str
    metrics_url: str

    def ask(self, path: str, *, peer: str = PROXY, method: str = "GET", **headers: str) -> httpx.Response:
        """One request as it comes through a proxy, or from somebody else on the network."""
        transport = httpx.HTTPTransport(local_address=peer)
        usual = {"Host": "desk.example", "X-Forwarded-Proto": "https"}
        with httpx.Client(transport=transport, base_url=self.url, timeout=PATIENCE_SECONDS) as client:
            return client.request(method, path, headers=usual | {n.replace("_", "-"): v for n, v in headers.items()})

    def signed_in(self) -> str:
        """The cookie of a new session through the issuer."""
        went = self.ask("/console/sign-in/through/staff?next=/console/me")
        place = urlsplit(self.provider.authorized(went.headers["location"]))
        back = self.ask(f"{place.path}?{place.query}", Cookie=kept(went, "__Host-placet-sign-in"))
        assert back.status_code == 200, back.text
        return kept(back, "__Host-placet")

    def is_signed_in(self, cookie: str) -> bool:
        return self.ask("/console/me", Cookie=cookie).status_code == 200


def kept(answer: httpx.Response, name: str) -> str:
    (found,) = [line for line in answer.headers.get_list("set-cookie") if line.startswith(f"{name}=")]
    return found.partition(";")[0]


@pytest.fixture(scope="module")
def site(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site") / "p"
    shutil.copytree(template, folder)
    project, provider = Project(folder), LocalProvider(time.time)
    provider.clients[CLIENT].addresses.append(f"{HERE}/console/sign-in/back/staff")
    scopes = json.dumps([*SCOPES, "sessions.manage"])
    text = CONFIG.format(me=ME, scopes=scopes) + SITE.format(issuer=provider.url)
    (folder / "placet.toml").write_text(text)
    (folder / "client").write_text(SECRET + "\n")
    process = project.start("serve", "--json")
    assert process.stdout is not None
    lines = b""
    while not lines.strip().endswith(b"}"):
        line = process.stdout.readline()
        assert line, process.communicate()
        lines += line
    said = json.loads(lines)
    yield Site(project, provider, process, said["url"], said["metrics_url"])
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    provider.close()
    assert process.returncode == 0
    assert SECRET not in err.decode() and "Traceback" not in err.decode()


# ---------------------------------------------------------------- through the issuer


def test_a_person_of_the_issuer_signs_in_outside_development_and_the_way_back_is_the_files(site: Site) -> None:
    went = site.ask("/console/sign-in/through/staff", X_Forwarded_Host="desk.example")
    asked = dict(parse_qsl(urlsplit(went.headers["location"]).query))
    assert asked["redirect_uri"] == f"{HERE}/console/sign-in/back/staff"

    cookie = site.signed_in()

    me = site.ask("/console/me", Cookie=cookie)
    assert me.status_code == 200 and "id:u-17" in me.text and "approvals.decide" in me.text
    told = site.project.run("audit", "tail", "--json")
    assert "session_begun" in told.out


def test_sessions_are_listed_and_ended_and_it_holds_at_once(site: Site) -> None:
    first, second = site.signed_in(), site.signed_in()
    assert site.project.run("sessions", "list").err.startswith("You are signed in nowhere.")
    listed = site.project.run("sessions", "list", "--person", "id:u-17", "--json").data["sessions"]
    assert {each["through"] for each in listed} == {site.provider.url}
    assert {each["subject"] for each in listed} == {"id:u-17"}
    page = site.ask("/console/me", Cookie=first).text
    mine = next(each["session"] for each in listed if f"<code>{each['session']}</code> this one" in page)

    one = site.project.run("sessions", "end", mine, "--json")
    assert (one.code, one.data["ended"]) == (0, 1)
    assert (site.is_signed_in(first), site.is_signed_in(second)) == (False, True)
    again = site.project.run("sessions", "end", mine)
    assert again.code != 0 and "There is no such session" in again.err

    rest = site.project.run("sessions", "end", "--everybody")
    assert rest.out.split()[0] == "ended" and not site.is_signed_in(second)
    assert site.project.run("sessions", "list", "--everybody", "--json").data["sessions"] == []
    ended = [e for e in site.project.run("audit", "tail", "--jsonl").lines if e["kind"] == "session_ended"]
    assert {each["decided_by"] for each in ended} == {ME}


@pytest.mark.parametrize(
    "words",
    [
        ["end"], ["end", "--mine", "--everybody"], ["end", "abc"], ["end", "--person", "a", "--everybody"],
        ["list", "--person", "a", "--everybody"], ["end", "x" * 16],
    ],
    ids="-".join,
)  # fmt: skip
def test_what_is_not_said_plainly_ends_nothing(site: Site, words: list[str]) -> None:
    assert site.project.run("sessions", *words).code == 2


def test_sessions_of_others_need_their_scope(site: Site, project: Project) -> None:
    """In a project without the scope; it is on record."""
    for words in (
        ["list", "--everybody"],
        ["end", "--everybody"],
        ["end", "--person", "olga"],
        ["list", "--person", "o"],
    ):
        ran = project.run("sessions", *words)
        assert ran.code == 4 and "sessions.manage" in ran.err, words
    assert project.run("sessions", "list", "--json").data["sessions"] == []
    assert project.run("sessions", "end", "--mine", "--json").data["ended"] == 0
    told = project.run("audit", "tail", "--json")
    assert told.out.count("session_refused") == 4 or told.code != 0


# ---------------------------------------------------------------- who it is, and whose word counts


def test_the_front_door_leads_people_to_the_console(site: Site) -> None:
    answer = site.ask("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/")
    assert site.ask("/", method="POST").status_code == 404


def test_the_console_is_for_requests_to_its_own_name(site: Site) -> None:
    for headers in ({"Host": "evil.example"}, {"Host": "desk.example:1"}, {"X_Forwarded_Host": "evil.example"}):
        answer = site.ask("/console/sign-in", **headers)
        assert (answer.status_code, answer.text) == (421, "misdirected\n"), headers
    for path in ("/healthz", "/openapi.json"):
        assert site.ask(path, Host="evil.example").status_code in (200, 401)


def test_a_proxy_is_believed_and_nobody_else(site: Site) -> None:
    inner = {"Host": "inner:8420", "X_Forwarded_Host": "desk.example"}
    assert site.ask("/console/sign-in", **inner).status_code == 200
    assert site.ask("/console/sign-in", peer=OTHERS, **inner).status_code == 421
    two = {"Host": "inner:8420", "X_Forwarded_Host": "desk.example, evil.example"}
    assert site.ask("/console/sign-in", **two).status_code == 421

    plain = site.ask("/console/sign-in?next=/console/me", X_Forwarded_Proto="http")
    assert (plain.status_code, plain.headers["location"]) == (308, f"{HERE}/console/sign-in")
    assert site.ask("/console/sign-out", method="POST", X_Forwarded_Proto="http").status_code == 403
    assert site.ask("/console/sign-in", peer=OTHERS, X_Forwarded_Proto="http").status_code == 200


def test_metrics_have_an_address_of_their_own_and_nothing_else_is_there(site: Site) -> None:
    found = httpx.get(site.metrics_url, timeout=PATIENCE_SECONDS)
    assert found.status_code == 200 and "placet_sign_ins_total" in found.text
    assert httpx.get(site.metrics_url.replace("/metrics", "/console/"), timeout=PATIENCE_SECONDS).status_code == 404
    assert site.ask("/metrics").status_code == 401


# ---------------------------------------------------------------- what is said wrongly


WRONG: dict[str, tuple[str, str]] = {
    "unknown member": ("[serve]\nhots = '0.0.0.0'", "Did you mean 'host'?"),
    "no port": ("[serve]\nport = 70000", "'port' in [serve]"),
    "a port in quotes": ("[serve]\nport = '80'", "'port' in [serve]"),
    "a path": ("[serve]\npublic_url = 'https://desk.example/console'", "public_url"),
    "the usual port": ("[serve]\npublic_url = 'https://desk.example:443'", "public_url"),
    "in the clear": ("[serve]\npublic_url = 'http://desk.example'", "public_url"),
    "a user": ("[serve]\npublic_url = 'https://me@desk.example'", "public_url"),
    "another trace": ("[serve]\nmcp_resumed_traces = 'new'", "'mcp_resumed_traces' in [serve]"),
    "everybody": ("[serve]\ntrusted_proxies = ['0.0.0.0/0']", "never everybody"),
    "no address": ("[serve]\ntrusted_proxies = ['proxy.example']", "trusted proxy"),
    "half a certificate": ("[serve]\ncertificate = 'c.pem'", "certificate_key"),
    "no metrics port": ("[serve]\nmetrics = '127.0.0.1'", "'metrics' in [serve]"),
    "no way back": (
        "[[sign_in.issuers]]\nissuer='https://id.example'\naudience='a'\ntenant='acme'\nstanding='person'\n"
        "person_if={amr='mfa'}\n[sign_in.issuers.console]\nname='staff'\nclient_id='c'",
        "public_url",
    ),
    "nobody is a person": (
        "[serve]\npublic_url='https://d.example'\n[[sign_in.issuers]]\nissuer='https://id.example'\naudience='a'\n"
        "tenant='acme'\n[sign_in.issuers.console]\nname='staff'\nclient_id='c'",
        "person",
    ),
    "the secret itself": (
        "[serve]\npublic_url='https://d.example'\n[[sign_in.issuers]]\nissuer='https://id.example'\naudience='a'\n"
        "tenant='acme'\nstanding='person'\nperson_if={amr='mfa'}\n"
        "[sign_in.issuers.console]\nname='staff'\nclient_id='c'\nclient_secret='zq-word'",
        "env:NAME",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_mistake_is_named_with_its_file_and_place(project: Project, what: str) -> None:
    text, named = WRONG[what]
    with (project.folder / "placet.toml").open("a") as file:
        file.write("\n" + text + "\n")

    ran = project.run("config", "show", "--json")

    assert ran.code == 2 and named in ran.out and "placet.toml" in ran.out
    assert "zq-word" not in ran.out + ran.err


def test_settings_say_where_it_is_served_and_who_said_so(site: Site) -> None:
    found = site.project.run("config", "show", "--json").data["settings"]
    assert (found["serve"]["value"], found["serve"]["origin"]) == (
        "127.0.0.1, port 0; as https://desk.example; behind 127.0.0.1; metrics at 127.0.0.1, port 0", "file",
    )  # fmt: skip
    assert "console through: staff (placet-console)" in found["sign_in"]["value"]
    doctor = {each["id"]: each for each in site.project.run("doctor", "--json").data["checks"]}
    assert (doctor["console"]["level"], doctor["listening"]["level"]) == ("ok", "ok")


# ---------------------------------------------------------------- TLS


def test_with_a_certificate_it_speaks_tls_itself(project: Project, certificate: tuple[Path, Path]) -> None:
    chain, key = certificate
    with (project.folder / "placet.toml").open("a") as file:
        file.write(f'\n[serve]\nport = 0\ncertificate = "{chain}"\ncertificate_key = "{key}"\n')
    process = project.start("serve")
    assert process.stdout is not None
    url = process.stdout.readline().decode().strip()
    trusted = ssl.create_default_context(cafile=str(chain))
    try:
        assert url.startswith("https://127.0.0.1:")
        assert httpx.get(f"{url}/healthz", verify=trusted, timeout=PATIENCE_SECONDS).json() == {"status": "ok"}
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{url.replace('https', 'http')}/healthz", timeout=PATIENCE_SECONDS)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert tls_of(Certificate(chain=chain, key=key)).minimum_version is ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("spoilt", ["gone", "no certificate", "another's key"])
def test_a_certificate_that_cannot_be_used_keeps_it_from_starting(
    project: Project, certificate: tuple[Path, Path], tmp_path: Path, spoilt: str
) -> None:
    chain, key = certificate
    if spoilt == "gone":
        chain = tmp_path / "nowhere.pem"
    elif spoilt == "no certificate":
        chain = tmp_path / "c.pem"
        chain.write_text("zq-word")
    else:
        _, key = write_certificate(tmp_path, "127.0.0.1")
    with (project.folder / "placet.toml").open("a") as file:
        file.write(f'\n[serve]\nport = 0\ncertificate = "{chain}"\ncertificate_key = "{key}"\n')

    ran = project.run("serve")

    assert ran.code == 2 and ("certificate" in ran.err)
    assert "zq-word" not in ran.err


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_certificate(tmp_path_factory.mktemp("tls"), "127.0.0.1")


def test_development_goes_by_nothing_of_it(project: Project) -> None:
    with (project.folder / "placet.toml").open("a") as file:
        file.write('\n[serve]\nhost = "0.0.0.0"\nport = 1\npublic_url = "https://desk.example"\n')
        file.write('certificate = "nowhere.pem"\ncertificate_key = "nowhere.key"\n')
        file.write(SITE.partition("[[")[2].join(("[[", "")).format(issuer="http://localhost:9"))
    process: Any = project.start("serve", "--dev", "--port", "0")
    try:
        url = process.stdout.readline().decode().strip()
        assert url.startswith("http://127.0.0.1:")
        assert httpx.get(f"{url}/console/sign-in", timeout=PATIENCE_SECONDS).status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
