"""`placet config show`: each setting, and who said it."""

import pytest

from placet.cli.settings import unknown_variables


def origins(ran) -> dict[str, str]:
    return {name: each["origin"] for name, each in ran.data["settings"].items()}


def test_each_setting_is_shown_with_who_said_it(project) -> None:
    project.environment["PLACET_STORE"] = "elsewhere.db"
    data = project.run("config", "show", "--key", "k", "--json")
    settings = data.data["settings"]

    assert (data.code, data.data["schema"]) == (0, "config/1")
    assert origins(data) == {
        "config": "default",
        "store": "environment",
        "key": "flag",
        "policy": "default",
        "shadow": "default",
        "tools": "file",
        "workflows": "default",
        "agent": "file",
        "people": "file",
        "retention": "default",
        "sign_in": "default",
        "serve": "default",
        "upstreams": "default",
    }
    assert settings["store"]["value"] == str(project.folder / "elsewhere.db")
    assert settings["store"]["said_by"] == "environment PLACET_STORE"
    assert settings["key"]["said_by"] == "flag --key"
    assert settings["agent"]["value"] == {
        "subject": "agent",
        "tenant": "acme",
        "roles": ["admin"],
        "scopes": ["things.write"],
    }
    assert not (project.folder / "elsewhere.db").exists(), "showing makes nothing"


@pytest.mark.parametrize(
    ("flag", "variable", "told"),
    [
        ("f.db", "e.db", ("f.db", "flag --store")),
        (None, "e.db", ("e.db", "environment PLACET_STORE")),
        (None, "", ("placet.db", "file placet.toml")),
        (None, None, ("placet.db", "file placet.toml")),
    ],
)
def test_the_first_that_says_so_wins(project, flag, variable, told) -> None:
    if variable is not None:
        project.environment["PLACET_STORE"] = variable
    words = ("--store", flag) if flag else ()
    ran = project.run("config", "show", "--origin", *words)
    name, said = told
    line = next(line for line in ran.out.splitlines() if line.startswith("store "))
    assert str(project.folder / name) in line
    assert line.endswith(said)
    assert said not in project.run("config", "show", *words).out


def test_nobody_named_the_key_of_a_database_and_no_place_beside_it_is_told(project) -> None:
    ran = project.run("config", "show", "--origin", "--json", "--store", "postgresql://mara@127.0.0.1:1/ledger")
    key = ran.data["settings"]["key"]

    assert (key["value"], key["said_by"]) == (None, "nobody: a database needs it named")


def test_the_default_is_told_too(bare) -> None:
    ran = bare.run("config", "show", "--origin", "--json")
    assert (ran.code, set(origins(ran).values())) == (0, {"default"})
    assert ran.data["settings"]["key"]["value"] == str(bare.folder / "placet.db.key")
    assert ran.data["settings"]["config"]["value"] is None
    assert list(bare.folder.iterdir()) == []


def test_a_variable_that_nobody_reads_is_named_and_its_value_is_not(project) -> None:
    project.environment |= {"PLACET_STOER": "SECRET-VALUE", "PLACET_QQQQQQ": "SECRET-VALUE"}
    text, data = project.run("config", "show"), project.run("config", "show", "--json")
    assert "PLACET_STOER is read by nobody: did you mean PLACET_STORE?" in text.err
    assert "PLACET_QQQQQQ is read by nobody\n" in text.err
    assert data.data["unknown_variables"] == [
        {"name": "PLACET_QQQQQQ", "did_you_mean": None},
        {"name": "PLACET_STOER", "did_you_mean": "PLACET_STORE"},
    ]
    assert "SECRET" not in text.out + text.err + data.out + data.err


def test_every_variable_that_is_read_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PLACET_CONFIG", "PLACET_STORE", "PLACET_KEY", "PLACET_POLICY", "PLACET_SHADOW", "PLACET_DEBUG"):
        monkeypatch.setenv(name, "x")
    monkeypatch.delenv("PLACET_DATA", raising=False)
    monkeypatch.delenv("PLACET_REQUIRE", raising=False)
    assert unknown_variables() == {}


def test_a_wrong_file_is_the_error_it_always_is(project) -> None:
    project.rewrite("[agent]", "[agnet]")
    ran = project.run("config", "show", "--json")
    assert (ran.code, ran.data["code"]) == (2, "config_invalid")
    assert ran.data["hint"] == "Did you mean 'agent'?"
    missing = project.run("config", "show", "--config", "none.toml", "--json")
    assert (missing.code, missing.data["code"]) == (2, "config_missing")


def test_foreign_characters_stay_where_they_are(project) -> None:
    project.rewrite('store = "placet.db"', 'store = "a\\u202eb\\u001b[2J.db"')
    ran = project.at_terminal("config", "show", NO_COLOR="1")
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
