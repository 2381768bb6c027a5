"""`placet tools`, `placet demo` and `placet bench`."""

import json
import subprocess
import sys

import pytest

SUMMARY = {"name", "version", "effect_class", "risk", "permission", "approval", "has_probe"}
DETAILS = SUMMARY | {
    "schema",
    "has_precondition",
    "description",
    "isolation",
    "timeout_seconds",
    "silence_seconds",
    "max_attempts",
    "remote",
    "operation_key",
    "resource",
    "purpose",
    "redact",
    "allowed_tenants",
    "text_rule",
    "max_argument_bytes",
    "max_result_bytes",
    "max_depth",
    "open_members",
    "open_result_members",
    "repair",
    "generic_executor_reason",
    "digest",
    "arguments_schema",
    "result_schema",
    "authored_schema",
}


def test_list_is_a_document_lines_or_a_table(project) -> None:
    document = project.run("tools", "list", "--json")
    lines = project.run("tools", "list", "--jsonl")
    table = project.run("tools", "list")

    assert (document.data["schema"], set(document.data)) == ("tools/1", {"schema", "tools"})
    assert all(set(each) == SUMMARY for each in document.data["tools"])
    assert len(document.data["tools"]) == len(lines.lines) == len(table.out.splitlines()) - 1 == 11
    assert {each["schema"] for each in lines.lines} == {"tool-summary/1"}


def test_show_prints_the_contract(project) -> None:
    data = project.run("tools", "show", "pay", "--json").data
    text = project.run("tools", "show", "pay").out

    assert set(data) == DETAILS
    assert (data["schema"], data["redact"], data["description"]) == ("tool/1", ["card"], "Masked for the approver.")
    assert "redact" in text
    assert data["remote"] == {
        "honours_key": False,
        "key_retention_seconds": None,
        "refuses_late": False,
        "arrival_bound_seconds": None,
        "proves_absence": False,
    }
    assert "honours_key no" in text
    assert 'properties.card.type: "string"' in text


def test_show_prints_what_a_provider_is_told(project) -> None:
    text = project.run("tools", "show", "put", "--provider", "anthropic")
    data = project.run("tools", "show", "put", "--provider", "anthropic", "--json").data

    assert (text.code, json.loads(text.out)) == (0, data["definition"])
    assert (data["schema"], data["provider"], data["kind"]) == ("tool-projection/1", "anthropic", "strict")
    assert (data["definition"]["name"], data["definition"]["strict"]) == ("put", True)
    for provider, key in (("openai", "function"), ("openai_responses", "parameters"), ("mcp", "inputSchema")):
        assert key in json.loads(project.run("tools", "show", "put", "--provider", provider).out)


def test_show_says_why_a_definition_is_loose_or_missing(project) -> None:
    with (project.folder / "tools.py").open("a") as file:
        file.write(
            '\n\n@placet.tool(effect="read", name="dotted.name")\nasync def dotted(größe: int) -> int:\n    return 1\n'
        )
        file.write("\n\nTOOLS.append(dotted)\n")
    loose = project.run("tools", "show", "ask", "--provider", "openai")
    missing = project.run("tools", "show", "dotted.name", "--provider", "anthropic")
    data = project.run("tools", "show", "dotted.name", "--provider", "anthropic", "--json")
    gaps = [{"pointer": "", "keyword": "properties", "why": "name_not_taken"}]

    assert (loose.code, json.loads(loose.out)["function"]["strict"]) == (0, False)
    assert "not strict: required at /properties/amount (absence_is_not_null)" in loose.err
    assert (missing.code, missing.out) == (8, "")
    assert "no definition: properties at the root (name_not_taken)" in missing.err
    assert (data.code, data.data["kind"], data.data["definition"], data.data["gaps"]) == (8, "none", None, gaps)
    assert project.run("tools", "show", "put", "--provider", "nobody").code == 2


def test_a_tool_that_is_not_there_is_told(project) -> None:
    ran = project.run("tools", "show", "nothing", "--json")

    assert (ran.code, ran.data["code"]) == (1, "not_found")


def test_lint_names_what_will_hurt(project) -> None:
    ran = project.run("tools", "lint", "--json")
    found = {(each["tool"], each["code"]) for each in ran.data["findings"]}

    assert ran.code == 0
    assert set(ran.data) == {"schema", "findings"}
    assert set(ran.data["findings"][0]) == {"severity", "code", "tool", "message", "fix"}
    assert ("put", "no_probe") in found
    assert ("put", "no_operation_key") in found
    assert ("put", "absence_unproven") in found
    assert ("vague", "no_probe") not in found
    assert ("forbidden", "out_of_reach") in found
    assert not any(tool == "look" for tool, _ in found)
    assert project.run("tools", "lint", "--strict").code == 8


@pytest.mark.parametrize(
    ("tool", "code"),
    [
        ("@write('x', approval='never', risk='high')\nasync def x() -> str:\n    'X.'\n    return ''\n", "never_asks"),
        (
            "@write('x', effect='irreversible')\nasync def x() -> str:\n    'X.'\n    return ''\n",
            "irreversible_unasked",
        ),
        ("@write('x')\ndef x() -> str:\n    'X.'\n    return ''\n", "thread_write"),
        ("@write('x')\nasync def x(password: str) -> str:\n    'X.'\n    return ''\n", "secret_shown"),
        ("@write('x')\nasync def x() -> str:\n    return ''\n", "no_description"),
        (
            "@write('x', generic_executor='old')\nasync def x(sql: str) -> str:\n    'X'\n    return ''\n",
            "generic_executor",
        ),
    ],
)
def test_lint_knows_more_kinds(project, tool: str, code: str) -> None:
    project.rewrite("TOOLS = [look,", tool + "TOOLS = [x, look,", "tools.py")

    assert ("x", code) in {(f["tool"], f["code"]) for f in project.run("tools", "lint", "--json").data["findings"]}


def test_an_irreversible_tool_that_always_asks_is_no_finding(project) -> None:
    found = {(f["tool"], f["code"]) for f in project.run("tools", "lint", "--json").data["findings"]}

    assert ("wipe", "irreversible_unasked") not in found
    assert ("wipe", "never_asks") not in found


@pytest.mark.parametrize(
    "tool",
    [
        "@placet.tool(effect='write')\nasync def x() -> str: ...\n",
        "x = look\n",
        "x = 7\n",
    ],
)
def test_tools_that_cannot_be_registered_are_an_error_of_lint(project, tool: str) -> None:
    project.rewrite("TOOLS = [look,", tool + "TOOLS = [x, look,", "tools.py")
    ran = project.run("tools", "lint", "--json")
    listed = project.run("tools", "list", "--json")

    assert ran.code == 8
    assert [(f["severity"], f["code"]) for f in ran.data["findings"]] == [("error", "contract_invalid")]
    assert (listed.code, listed.data["code"]) == (2, "contract_invalid")


# ---------------------------------------------------------------- demo and bench


@pytest.fixture
def with_programs(bare):
    """A folder that brings a demo and a bench of its own."""
    (bare.folder / "programs.py").write_text(
        "import sys\n"
        "def main(words):\n"
        "    print(words)\n"
        "    return 3 if 'fail' in words else None\n"
        "def refuse(words):\n"
        "    from placet.errors import StoreMissing\n"
        "    raise StoreMissing('no store')\n"
    )
    info = bare.folder / "programs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: programs\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[placet.demos]\nshow = programs:main\nrefuse = programs:refuse\n")
    bare.environment["PYTHONPATH"] = str(bare.folder)
    return bare


def test_a_demo_gets_its_words_and_gives_its_exit_code(with_programs) -> None:
    ran = with_programs.run("demo", "show", "--yes-as", "mara", "--json", "-x", "--", "y")

    assert ran.code == 0
    assert ran.out.startswith("['--yes-as', 'mara', '--json', '-x',")
    assert with_programs.run("demo", "show", "fail").code == 3
    assert with_programs.run("demo", "show", "--help").out == "['--help']\n"


def test_what_a_demo_raises_is_told_like_everything_else(with_programs) -> None:
    ran = with_programs.run("demo", "refuse")

    assert ran.code == 1
    assert "code: store_missing" in ran.err
    assert "Traceback" not in ran.err


def test_demo_help_names_what_is_installed(with_programs) -> None:
    ran = with_programs.run("demo", "--help")

    assert ran.code == 0
    assert "show" in ran.out.split("Installed: ")[1].splitlines()[0]
    unknown = with_programs.run("demo", "nothing")
    assert unknown.code == 2
    assert "show" in unknown.err


def test_bench_gets_its_words(bare) -> None:
    program = (
        "import sys, types\n"
        "module = types.ModuleType('placet.proof.bench')\n"
        "module.main = lambda words: print(words) or 4\n"
        "sys.modules['placet.proof.bench'] = module\n"
        "from placet.cli import main\n"
        "sys.exit(main(['bench', '--seconds', '1', '--help']))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)

    assert (run.returncode, run.stdout.splitlines()[0]) == (4, "['--seconds', '1', '--help']")
