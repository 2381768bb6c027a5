"""`placet grants`: what a grant covers is said before it is signed; all of them can be listed and taken back."""

import pytest

from .conftest import ME, Project

POLICY = """\
[[ask]]
name = "small"
needs = "review"
grants = { uses = 20, usable_for = "8h" }
"""
LIMITS = '{"text": "any", "amount": {"at_most": 5}, "note": {"one_of": [""]}}'
WORDS = ("--tool", "ask", "--for", "agent", "--limits", LIMITS)
COVERED = """\
Calls of ask, version 1, by agent, in every run.
amount: a number, at most 5
note: exactly ""
text: anything, or nothing
At most 10 of them, until """


@pytest.fixture
def granting(project: Project) -> Project:
    """A project whose policy lets standing grants be given."""
    (project.folder / "policy.toml").write_text(POLICY)
    project.rewrite('tools = "tools:TOOLS"\n', 'tools = "tools:TOOLS"\npolicy = "policy.toml"\n')
    return project


def give(project: Project, *words: str) -> str:
    """Give a grant as a script does: the draft first, then its digest."""
    draft = project.run("grants", "give", *(words or WORDS), "--draft", "--json")
    assert draft.code == 0, draft
    given = project.run("grants", "give", *(words or WORDS), "--digest", draft.data["digest"][:8], "--json")
    assert (given.code, given.data["digest"]) == (0, draft.data["digest"]), given
    return str(given.data["grant_id"])


def listed(project: Project, *words: str) -> list[tuple[str, str, int]]:
    rows = project.run("grants", "list", *words, "--json").data["grants"]
    return [(row["grant_id"], row["state"], row["uses"]) for row in rows]


def test_a_grant_is_given_used_listed_shown_and_revoked(granting: Project) -> None:
    grant_id = give(granting)
    ran = granting.call("ask", '{"text": "a", "amount": 5}')
    beyond = granting.call("ask", '{"text": "b", "amount": 6}')

    assert (ran.code, beyond.code) == (0, 5)
    assert listed(granting) == [(grant_id, "usable", 1)]
    table = granting.run("grants", "list").out
    assert [word in table for word in (grant_id, "agent", "1 of 10", ME, "every")] == [True] * 5
    shown = granting.run("grants", "show", grant_id)
    assert shown.code == 0 and shown.out.startswith(COVERED) and "1 of 10" in shown.out
    assert granting.run("grants", "show", grant_id, "--json").data["limits"] == {
        "text": "any", "amount": {"at_most": 5}, "note": {"one_of": [""]}
    }  # fmt: skip

    revoked = granting.run("grants", "revoke", grant_id)
    assert (revoked.code, revoked.out) == (0, f"revoked  {grant_id}\n")
    assert "It was used 1 times" in revoked.err
    assert listed(granting) == []
    assert listed(granting, "--all") == [(grant_id, "revoked", 1)]
    assert granting.call("ask", '{"text": "c"}').code == 5


def test_what_stands_is_listed_past_what_has_ended(granting: Project) -> None:
    grant_id = give(granting, *WORDS)
    for _ in range(2):
        granting.run("grants", "revoke", give(granting, *WORDS))
    assert listed(granting, "--limit", "1") == [(grant_id, "usable", 0)]
    assert [state for _, state, _ in listed(granting, "--limit", "1", "--all")] == ["revoked"]
    granting.run("grants", "revoke", grant_id)
    assert "no standing grant that is good" in granting.run("grants", "list").err + granting.run("grants", "list").out


def test_at_a_terminal_what_it_covers_is_said_before_the_question(granting: Project) -> None:
    no = granting.at_terminal("grants", "give", *WORDS, answers=[("give this grant? [y/N]", b"n\n")], NO_COLOR="1")
    assert COVERED.replace("\n", "\r\n") in no.out.split("give this grant?")[0]
    assert "Nothing was given" in no.out and no.code != 0
    assert listed(granting, "--all") == []

    yes = granting.at_terminal("grants", "give", *WORDS, answers=[("give this grant? [y/N]", b"y\n")])
    assert (yes.code, len(listed(granting))) == (0, 1)


def test_off_a_terminal_nothing_is_given_without_the_digest_of_the_draft(granting: Project) -> None:
    bare = granting.run("grants", "give", *WORDS)
    assert (bare.code, "--digest PREFIX is needed" in bare.err) == (2, True)
    other = granting.run("grants", "give", *WORDS, "--digest", "0" * 8, "--json")
    assert (other.code, other.data["code"]) == (8, "other_digest")
    assert listed(granting, "--all") == []


def test_a_grant_begins_with_a_call_that_waits_and_is_widened(granting: Project) -> None:
    """Two acts: the question itself waits on."""
    approval_id = granting.asked("ask", '{"text": "a"}')
    exact = granting.run("grants", "give", "--like", approval_id, "--draft", "--json").data
    assert exact["limits"] == {"text": {"one_of": ["a"]}, "amount": {"one_of": [1]}, "note": {"one_of": [""]}}
    assert (exact["run"], exact["granted_to"], exact["max_uses"]) == ("r1", "agent", 10)

    give(
        granting, "--like", approval_id, "--limits", '{"text": "any"}', "--every-run", "--uses", "2", "--expires", "5m"
    )
    (row,) = granting.run("grants", "list", "--json").data["grants"]
    assert (row["run"], row["max_uses"], row["limits"]["text"]) == (None, 2, "any")
    waiting = granting.run("approvals", "list", "--json").data["approvals"]
    assert [view["approval_id"] for view in waiting] == [approval_id]
    assert granting.call("ask", '{"text": "b"}', "--run", "r2").code == 0


REFUSED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "an argument without a limit": (
        ("--tool", "ask", "--for", "agent", "--limits", '{"text": "any"}'),
        2,
        "bad_limits",
    ),
    "limits that are no JSON": (("--tool", "ask", "--for", "agent", "--limits", "{"), 2, "bad_limits"),
    "nothing to grant": (("--tool", "ask", "--for", "agent"), 2, "usage"),
    "a tool that there is not": (("--tool", "none", "--for", "agent", "--limits", "{}"), 1, "not_found"),
    "an approval that there is not": (("--like", "apr-none"), 1, "not_found"),
    "an act that cannot be undone": (("--tool", "wipe", "--for", "agent", "--limits", "{}"), 3, "never_granted"),
    "high risk": (("--tool", "grave", "--for", "agent", "--limits", "{}"), 3, "never_granted"),
    "for too long": ((*WORDS, "--expires", "9h"), 8, "grant_too_long"),
    "too often": ((*WORDS, "--uses", "21"), 8, "grant_too_often"),
    "an age that is none": ((*WORDS, "--expires", "soon"), 2, "usage"),
    "one's own calls": (("--tool", "ask", "--for", ME, "--limits", LIMITS), 4, "own_request"),
    "one run and every run": ((*WORDS, "--run", "r1", "--every-run"), 2, "usage"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_granted_is_refused_with_a_next_step(granting: Project, what: str) -> None:
    words, code, name = REFUSED[what]
    ran = granting.run("grants", "give", *words, "--draft", "--json")
    assert (ran.code, ran.data["code"]) == (code, name), ran
    assert ran.data["hint"]
    assert "Traceback" not in ran.err


def test_without_a_word_in_the_policy_nobody_grants_anything(project: Project) -> None:
    ran = project.run("grants", "give", *WORDS, "--draft", "--json")
    assert (ran.code, ran.data["code"]) == (3, "not_grantable")
    assert "There is no standing grant that is good for anything" in project.run("grants", "list").err
