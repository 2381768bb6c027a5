"""The root: help without weight, the table against the commands, and words that are no command."""

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer

import placet
from placet.cli.table import COMMANDS, EXIT_MEANINGS, Exit, root_help

HEAVY = {"apsw", "cryptography", "httpx", "prometheus_client", "pydantic", "rich"}


def modules_after(*words: str) -> set[str]:
    program = (
        "import json, sys\n"
        "from placet.cli import main\n"
        f"code = main({list(words)!r})\n"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)\n"
    )
    command = [sys.executable, "-I", "-c", program]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    code, modules = json.loads(run.stderr)
    assert code == 0
    return {name.partition(".")[0] for name in modules}


def commands_of(name: str) -> dict[str, object]:
    command = typer.main.get_command(import_module(COMMANDS[name].module).app)
    return dict(getattr(command, "commands", {}))


@pytest.mark.parametrize("words", [["--help"], ["-h"], [], ["help"], ["version"], ["version", "--json"], ["--version"]])
def test_root_help_and_version_load_nothing_heavy_and_not_even_typer(words: list[str]) -> None:
    loaded = modules_after(*words)

    assert "placet" in loaded
    assert loaded.isdisjoint(HEAVY | {"typer"}), sorted(loaded & (HEAVY | {"typer"}))


def test_help_of_a_command_loads_no_rich(bare) -> None:
    modules = modules_after("call", "--help")

    assert "typer" in modules
    assert "rich" not in modules


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_and_the_commands_agree(name: str) -> None:
    entry = COMMANDS[name]
    verbs = commands_of(name)

    assert set(verbs) == set(entry.verbs)
    for verb, command in verbs.items():
        assert getattr(command, "help", "").startswith(entry.verbs[verb].rstrip("."))
    assert f"  {name}" in root_help()
    assert entry.does in root_help()


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_help_names_every_exit_code(name: str, bare) -> None:
    verbs = [[name, verb] for verb in COMMANDS[name].verbs] or [[name]]
    for words in verbs:
        ran = bare.run(*words, "--help")

        assert ran.code == 0
        missing = [code for code, meaning in EXIT_MEANINGS.items() if f"{code.value:<4} {meaning}" not in ran.out]
        assert missing == []


def test_exit_codes_are_the_promised_ones() -> None:
    assert [code.value for code in Exit] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 130]
    assert set(EXIT_MEANINGS) == set(Exit)


def test_version_as_text_and_as_json(bare) -> None:
    assert bare.run("version").out == f"placet {placet.__version__}\n"
    assert bare.run("--version").out == f"placet {placet.__version__}\n"
    data = bare.run("version", "--json").data
    assert set(data) == {"schema", "placet", "python", "platform"}
    assert data["schema"] == "version/1"
    assert data["placet"] == placet.__version__


def test_version_through_typer_says_the_same(bare) -> None:
    ran = bare.run("version", "--frob")

    assert (ran.code, ran.out) == (2, "")
    assert "No such option: --frob" in ran.err


def test_an_unknown_command_names_the_nearest(bare) -> None:
    ran = bare.run("aprovals", "list")

    assert (ran.code, ran.out) == (2, "")
    assert "Did you mean 'approvals'?" in ran.err


@pytest.mark.parametrize("words", [["--config", "placet.toml", "tools", "list"], ["--json", "doctor"], ["-x"]])
def test_an_option_before_the_command_is_told_to_go_behind_it(bare, words: list[str]) -> None:
    ran = bare.run(*words)

    assert (ran.code, ran.out) == (2, "")
    assert f"A command comes first, and {words[0]!r} is an option." in ran.err
    assert (
        "next: Options stand behind the command: placet COMMAND [OPTIONS]. placet --help names the commands." in ran.err
    )


def test_of_an_option_before_the_command_its_value_is_not_repeated(bare) -> None:
    ran = bare.run("--store=postgresql://shop:kept@127.0.0.1/db", "doctor")

    assert ran.code == 2
    assert "'--store' is an option" in ran.err and "kept" not in ran.err


def test_an_unknown_command_is_told_as_json_too(bare) -> None:
    ran = bare.run("frob", "--json")

    assert (ran.code, ran.err) == (2, "")
    assert ran.data == {
        "schema": "error/1",
        "code": "usage",
        "message": "There is no command 'frob'.",
        "hint": "See: placet --help",
        "retryable": False,
        "may_have_acted": False,
        "exit_code": 2,
    }


@pytest.mark.parametrize(
    "words",
    [
        ["approvals"],
        ["approvals", "frob"],
        ["approvals", "show"],
        ["approvals", "list", "--limit", "many"],
        ["approvals", "list", "--state", "maybe"],
        ["effects", "list", "--state", "maybe"],
        ["audit", "tail", "-n", "0"],
        ["call"],
        ["tools", "show"],
        ["demo", "nothing-of-this-name"],
    ],
)
def test_wrong_usage_ends_with_2_and_says_so_in_either_form(words: list[str], bare) -> None:
    plain = bare.run(*words)
    as_json = bare.run(*words, "--json")

    assert (plain.code, plain.out) == (2, "")
    assert plain.err.startswith("placet: ")
    assert "Traceback" not in plain.err
    assert as_json.code == 2
    if words[0] != "demo":
        assert as_json.data["code"] == "usage"


def test_hostile_words_do_not_reach_the_terminal_raw(bare) -> None:
    ran = bare.at_terminal("\x1b]0;owned\x07\u202e")

    assert ran.code == 2
    assert "\x1b" not in ran.out
    assert "\x07" not in ran.out
    assert "\u202e" not in ran.out


def test_an_unexpected_error_is_one_fixed_sentence_and_debug_shows_more(bare) -> None:
    (bare.folder / "sitecustomize.py").write_text(
        "import placet.cli.session as s\ndef broken(**_): raise ValueError('secret-canary')\ns.read_settings = broken\n"
    )
    ran = bare.run("approvals", "list", PYTHONPATH=str(bare.folder))
    told = bare.run("approvals", "list", PYTHONPATH=str(bare.folder), PLACET_DEBUG="1")

    assert (ran.code, ran.out) == (1, "")
    assert "placet failed unexpectedly: ValueError" in ran.err
    assert "Traceback" not in ran.err
    assert "secret-canary" not in ran.err
    assert told.code == 1
    assert "Traceback" in told.err


def test_the_installed_program_is_the_same() -> None:
    program = Path(sys.executable).with_name("placet")
    if not program.exists():
        pytest.skip("placet is not installed beside this python")
    run = subprocess.run([program, "--help"], capture_output=True, text=True, check=False, timeout=60)

    assert (run.returncode, run.stdout) == (0, root_help())


def test_a_closed_pipe_is_no_traceback(project) -> None:
    read, write = os.pipe()
    os.close(read)
    run = subprocess.run(
        [sys.executable, "-m", "placet.cli", "tools", "list"],
        cwd=project.folder,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(write)

    assert run.returncode == 1
    assert run.stderr == ""


def test_a_hint_names_the_help_of_the_command_that_was_typed(bare) -> None:
    own = bare.run("call")
    verb = bare.run("effects", "reconcile", "--committed")

    assert own.err.endswith("  next: See: placet call --help\n")
    assert verb.err.endswith("  next: See: placet effects reconcile --help\n")


def test_a_misspelt_verb_and_a_wrong_choice_are_told_in_plain_words(bare) -> None:
    verb = bare.run("approvals", "aprove")
    choice = bare.run("tools", "show", "x", "--provider", "foo")

    assert verb.err.startswith("placet: No such command 'aprove'. Did you mean 'approve'?\n")
    assert choice.err.startswith("placet: Invalid value for '--provider': 'foo' is not one of 'openai'")


def test_python_m_placet_is_the_command_line(bare) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "placet", "version"], capture_output=True, text=True, check=False, timeout=60
    )

    assert (ran.returncode, ran.stdout) == (0, f"placet {placet.__version__}\n")


ADDRESSES = [
    "postgresql://mara:hunter2canary@127.0.0.1:1/db",
    "//mara:hunter2canary@db/ledger",
    "mara:hunter2canary@db:5432/ledger",
    "PGPASSWORD=hunter2canary",
    "mara%3Ahunter2canary%40db/ledger",
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("before", [[], ["doctor"], ["verify"], ["init"], ["doctor", "--only"], ["doctor", "--stor"]])
def test_an_address_in_the_wrong_place_is_not_repeated_and_makes_nothing(bare, before: list[str], address: str) -> None:
    there = sorted(bare.folder.iterdir())

    ran = bare.run(*before, address)
    joined = bare.run(*before[:1], f"{before[-1]}={address}") if before[1:] else ran

    assert ran.code == joined.code == 2
    assert "hunter2canary" not in ran.out + ran.err + joined.out + joined.err
    assert sorted(bare.folder.iterdir()) == there
