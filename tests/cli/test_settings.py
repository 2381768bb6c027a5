"""Flag > environment > placet.toml > default, and a file that is closed."""

import json

import pytest


def code_of(ran) -> tuple[int, str]:
    return ran.code, ran.data["code"]


def test_a_flag_beats_the_environment_beats_the_file(project) -> None:
    def place(*words: str, **environment: str) -> str:
        return project.run("approvals", "list", "--json", *words, **environment).data["message"]

    (project.folder / "placet.db").rename(project.folder / "kept.db")
    assert "/project/placet.db" in place()
    assert "/project/env.db" in place(PLACET_STORE="env.db")
    assert "/project/flag.db" in place("--store", "flag.db", PLACET_STORE="env.db")


def test_the_key_is_found_the_same_way(project) -> None:
    (project.folder / "placet.db.key").rename(project.folder / "k.key")

    assert code_of(project.run("approvals", "list", "--json")) == (2, "key_missing")
    assert project.run("approvals", "list", PLACET_KEY="k.key").code == 0
    assert project.run("approvals", "list", "--key", "k.key", PLACET_KEY="other").code == 0
    project.rewrite('store = "placet.db"', 'store = "placet.db"\nkey = "k.key"')
    assert project.run("approvals", "list").code == 0


def test_the_file_is_found_upwards_and_its_paths_count_from_it(project) -> None:
    below = project.folder / "a" / "b"
    below.mkdir(parents=True)
    project.folder = below

    assert project.run("tools", "list").code == 0
    assert project.run("approvals", "list").code == 0


def test_the_file_is_named_by_flag_or_environment(project, bare) -> None:
    file = str(project.folder / "placet.toml")

    assert bare.run("approvals", "list", "--config", file).code == 0
    assert bare.run("approvals", "list", PLACET_CONFIG=file).code == 0
    assert code_of(bare.run("approvals", "list", "--config", "no.toml", "--json")) == (2, "config_missing")
    missing = bare.run("approvals", "list", "--json", PLACET_CONFIG="no.toml")
    assert code_of(missing) == (2, "config_missing")
    assert (
        missing.data["hint"] == "Name one that is there, by --config or PLACET_CONFIG. A new project: placet init DIR"
    )


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("[agent]", "[agnet]", "'agnet' at the top level", "Did you mean 'agent'?"),
        ("store =", "stroe =", "'stroe' at [placet]", "Did you mean 'store'?"),
        ("subject =", "name =", "'name' at [agent]", "Known there: subject, tenant, roles, scopes."),
        ("[people.", "on_call = 1\n[people.", "'on_call' at [agent]", ""),
        ("tenant =", "tenants =", "'tenants' at [", "Did you mean 'tenant'?"),
    ],
)
def test_unknown_members_are_refused_with_the_nearest(project, old: str, new: str, message: str, hint: str) -> None:
    project.rewrite(old, new)
    ran = project.run("approvals", "list", "--json")

    assert code_of(ran) == (2, "config_invalid")
    assert message in ran.data["message"]
    assert hint in ran.data["hint"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('tools = "tools:TOOLS"', "tools = 7"),
        ('tools = "tools:TOOLS"', 'tools = ""'),
        ('subject = "agent"', ""),
        ('roles = ["admin"]', 'roles = "admin"'),
        ('roles = ["admin"]', 'roles = ["emperor"]'),
        ('scopes = ["things.write"]', "scopes = [1]"),
        ('scopes = ["things.write"]', 'scopes = [""]'),
        ("[agent]", "[agent"),
        ("[agent]", "[agent]\nsubject = 'a'\nsubject = 'b'\n[x]"),
        ("[placet]", "people = 1\n[placet]"),
        ('store = "placet.db"', 'store = "placet.db"\nstore = "other.db"'),
    ],
)
def test_what_the_file_cannot_mean_is_refused(project, old: str, new: str) -> None:
    project.rewrite(old, new)

    assert code_of(project.run("approvals", "list", "--json")) == (2, "config_invalid")


def test_a_file_that_is_no_toml_or_no_text_is_refused_without_its_content(project) -> None:
    for content in (b"canary = = 1", b"\xff\xfe", b"x = '" + b"a" * 1_100_000):
        (project.folder / "placet.toml").write_bytes(content)
        ran = project.run("approvals", "list", "--json")

        assert code_of(ran) == (2, "config_invalid")
        assert "canary" not in ran.out


def test_call_needs_an_agent_and_tools(project, bare) -> None:
    assert code_of(bare.run("call", "--tool", "look", "--json")) == (2, "config_invalid")
    project.rewrite('tools = "tools:TOOLS"', "")
    assert code_of(project.run("call", "--tool", "look", "--json")) == (2, "config_invalid")
    assert code_of(project.run("tools", "list", "--json")) == (2, "config_invalid")


@pytest.mark.parametrize("place", ["tools", "tools:", ":TOOLS", "tools:TOOLS:X", "too ls:TOOLS", "../tools:TOOLS"])
def test_a_place_of_tools_that_is_none_is_refused(project, place: str) -> None:
    project.rewrite('tools = "tools:TOOLS"', f"tools = {json.dumps(place)}")

    assert code_of(project.run("tools", "list", "--json")) == (2, "config_invalid")


@pytest.mark.parametrize(
    ("module", "name", "place"),
    [
        ("x = 1\n1 / 0  # canary\n", "ZeroDivisionError", "tools.py, line 2"),
        ("raise ValueError('canary')\n", "ValueError", "tools.py, line 1"),
        ("import sys\nsys.exit(3)\n", "SystemExit", "tools.py, line 2"),
        ("import canary_module\n", "ModuleNotFoundError", "no module named 'canary_module'"),
        ("def broken(:\n", "SyntaxError", ""),
        ("x = 1\n", "there is no TOOLS in it", ""),
        ("TOOLS = 7\n", "TypeError", ""),
    ],
)
def test_tools_that_cannot_be_imported_are_told_safely(project, module: str, name: str, place: str) -> None:
    (project.folder / "tools.py").write_text(module)
    ran = project.run("tools", "list", "--json")
    debug = project.run("tools", "list", PLACET_DEBUG="1")

    assert code_of(ran) == (2, "tools_not_loaded")
    assert name in ran.data["message"]
    assert place in ran.data["message"]
    assert "Traceback" not in ran.out + ran.err
    if "canary_module" not in module:
        assert "canary" not in ran.out + ran.err
    assert "Traceback" in debug.err


def test_what_the_tools_module_prints_is_no_data(project) -> None:
    project.rewrite("import asyncio", "import asyncio\nprint('noise')", "tools.py")
    ran = project.run("tools", "list", "--json")

    assert ran.data["schema"] == "tools/1"
    assert "noise" in ran.err


def test_a_file_that_is_no_toml_is_told_with_the_place_and_a_next_step(project) -> None:
    project.rewrite('subject = "agent"', "subject = agent")
    ran = project.run("approvals", "list", "--json")

    assert code_of(ran) == (2, "config_invalid")
    assert "(at line" in ran.data["message"]
    assert ran.data["hint"].startswith("Mend it there")


ADDRESSES = [
    "postgresql://mara:hunter2canary@127.0.0.1:1/db",
    "mara:hunter2canary@db:5432/ledger",
    "PGPASSWORD=hunter2canary",
]


def is_refused_in_silence(ran) -> bool:
    return ran.code == 2 and "hunter2canary" not in ran.out + ran.err


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("setting", ["key", "config", "policy"])
def test_an_address_that_is_given_as_a_file_is_refused_and_not_repeated(project, setting: str, address: str) -> None:
    flag = project.run("approvals", "list", f"--{setting}", address)
    variable = project.run("config", "show", "--json", **{f"PLACET_{setting.upper()}": address})

    for ran in (flag, variable):
        assert is_refused_in_silence(ran)
        assert f"What is given as {setting} looks like an address" in ran.out + ran.err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("store =", 'key = "{}"\nstore ='),
        ("store =", 'policy = "{}"\nstore ='),
        ("store =", '"{}" = 1\nstore ='),
        ("[agent]", '["{}"]\nx = 1\n[agent]'),
        ("[agent]", '[people."{}"]\ntenant = "acme"\ntenants = "acme"\n[agent]'),
        ("[agent]", '[people."{}"]\n[agent]'),
        ("[agent]", '[people."{}"]\ntenant = "acme"\nroles = ["{}"]\n[agent]'),
        ("[agent]", '[retention]\n"{}" = "90d"\n[agent]'),
    ],
    ids=["key", "policy", "member", "section", "member of a person", "person", "role", "member of a section"],
)
def test_an_address_in_the_wrong_place_of_the_file_is_not_repeated(project, old: str, new: str) -> None:
    project.rewrite(old, new.replace("{}", ADDRESSES[0]))

    assert is_refused_in_silence(project.run("config", "show", "--origin"))


def test_an_address_that_is_given_as_the_tools_is_not_repeated(project) -> None:
    text = (project.folder / "placet.toml").read_text()
    named = next(line for line in text.splitlines() if line.startswith("tools ="))
    project.rewrite(named, f'tools = "{ADDRESSES[0]}"')

    assert is_refused_in_silence(project.run("tools", "list"))
    shown = project.run("config", "show")
    assert shown.code == 0 and "hunter2canary" not in shown.out + shown.err
