"""A person comes in through an issuer of another site, over TLS, in a real browser, and goes out again."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import async_playwright, expect

import placet
from placet.bootstrap.sign_in import doors_of
from placet.bootstrap.surroundings import system_clock
from placet.console.app import Console
from placet.model.admission import Admission
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuer_sign_in import ConsoleClient
from placet.model.issuers import Issuer, Network
from placet.model.principal import Standing
from placet.model.serving import Certificate
from placet.serve.front import Site
from placet.serve.http_server import listening_socket
from placet.serve.serving import Doors, serving
from placet.serve.tls import tls_of
from tests.adapters.identity.provider import CLIENT, SECRET, LocalProvider
from tests.browser.conftest import ARGUMENTS, PATIENCE, chromium
from tests.browser.test_accessibility import note
from tests.certificates import write_certificate

pytestmark = [pytest.mark.timeout(300)]
expect.set_options(timeout=PATIENCE)


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    """At a name that is another site than the console's address."""
    made = LocalProvider(time.time, name="localhost")
    made.shows_page = True
    yield made
    made.close()


@asynccontextmanager
async def served(folder: Path, provider: LocalProvider) -> AsyncIterator[str]:
    at = listening_socket("127.0.0.1", 0)
    url = f"https://127.0.0.1:{at.getsockname()[1]}"
    provider.clients[CLIENT].addresses.append(f"{url}/console/sign-in/back/staff")
    (folder / "client").write_text(SECRET)
    issuer = Issuer(
        issuer=provider.url,
        audience="placet-api",
        network=Network.LOOPBACK,
        tenant="acme",
        scopes=frozenset({"audit.read"}),
        standing=Standing.PERSON,
        person_if={"amr": frozenset({"mfa"})},
    )
    client = ConsoleClient(
        issuer=issuer,
        name="staff",
        client_id=CLIENT,
        client_secret=SecretRef(place=SecretPlace.FILE, name=str(folder / "client")),
        ends_there=True,
    )
    admission = Admission(issuers=(issuer,), clients=(client,), public_url=url)
    chain, key = write_certificate(folder, "127.0.0.1")
    async with AsyncExitStack() as stack:
        opening = placet.open(tools=[], store=folder / "placet.db", recovery=placet.Recovery.MANUAL)
        gate = await stack.enter_async_context(opening)
        front = doors_of(opening, admission)
        stack.push_async_callback(front.close)
        console = Console(gate, sessions=front.sessions, clock=system_clock(), issuers=front.issuers, public_url=url)
        doors = Doors(
            sign_in=front.sign_in,
            console=console,
            site=Site(public_url=url),
            tls=tls_of(Certificate(chain=chain, key=key)),
        )
        process = await stack.enter_async_context(serving(gate, doors, at))
        assert process.url == url
        yield url


async def test_through_an_issuer_of_another_site_to_the_page_that_was_wanted_and_out_again(
    tmp_path: Path, provider: LocalProvider
) -> None:
    program = chromium()
    pictures = Path(os.environ.get("TEST_SCREENSHOTS") or tmp_path)
    pictures.mkdir(parents=True, exist_ok=True)
    async with served(tmp_path, provider) as url, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        context = await browser.new_context(ignore_https_errors=True)
        context.set_default_timeout(PATIENCE)
        page = await context.new_page()
        complaints: list[str] = []
        page.on(
            "console",
            lambda said: (
                complaints.append(f"{said.location['url']} {said.text}") if said.type in ("error", "warning") else None
            ),
        )

        await page.goto(f"{url}/console/audit?kind=session_begun")
        await expect(page.get_by_label("Your one-time sign-in word")).to_have_count(0)
        await page.screenshot(path=pictures / "sign-in-through-an-issuer.png")
        await page.get_by_role("link", name="Sign in with").click()
        await page.get_by_role("link", name="Go on as u-17").click()

        await page.wait_for_url(f"{url}/console/audit?kind=session_begun")
        await expect(page.get_by_role("link", name="u-17")).to_be_visible()
        kept = {each["name"]: each for each in await context.cookies()}
        assert kept.keys() == {"__Host-placet"}, "nothing is left of the attempt"
        session = kept["__Host-placet"]
        assert (session["secure"], session["httpOnly"], session["sameSite"]) == (True, True, "Strict")

        await page.get_by_role("link", name="u-17").click()
        await expect(page.get_by_role("heading", name="Where you are signed in")).to_be_visible()
        await expect(page.get_by_text("this one")).to_be_visible()
        await page.screenshot(path=pictures / "own-sessions.png", full_page=True)
        await page.get_by_role("button", name="Sign out", exact=True).click()

        await expect(page.get_by_text("Signed out there")).to_be_visible()
        assert provider.ended == [{"client_id": CLIENT, "post_logout_redirect_uri": f"{url}/console/sign-in"}]
        await page.goto(f"{url}/console/me")
        await expect(page.get_by_role("link", name="Sign in with")).to_be_visible()
        assert [each for each in complaints if each.startswith(url)] == []

        looked = await browser.new_context(ignore_https_errors=True, bypass_csp=True)
        page = await looked.new_page()
        await page.goto(f"{url}/console/sign-in?done=signed_out")
        problems: dict[str, list[str]] = {}
        await note(problems, "/sign-in", page)
        assert problems == {}
        await browser.close()
