"""What the user's tools module raises while it is imported, told by the command line."""

import pytest

SECRET = "s3cr3t-value"
RAISING = {
    "SystemExit": (f"raise SystemExit({SECRET!r})", "SystemExit"),
    "GeneratorExit": (f"raise GeneratorExit({SECRET!r})", "GeneratorExit"),
    "a cancellation": (f"import asyncio\nraise asyncio.CancelledError({SECRET!r})", ""),
    "a group": (f"raise BaseExceptionGroup({SECRET!r}, [SystemExit({SECRET!r})])", "BaseExceptionGroup"),
    "its own": (f"class S3cr3t(BaseException): ...\nraise S3cr3t({SECRET!r})", "untrusted_exception"),
    "its own of ours": (
        f"import placet.errors\nclass S3cr3t(placet.errors.PlacetError): ...\nraise S3cr3t({SECRET!r})",
        "untrusted_exception",
    ),
    "its own missing module": (
        f"class S3cr3t(ModuleNotFoundError): ...\nraise S3cr3t({SECRET!r}, name={SECRET!r})",
        "untrusted_exception",
    ),
    "when looked at": (
        f"class S3cr3t(BaseException): ...\ndef __getattr__(name):\n    raise S3cr3t({SECRET!r})",
        "untrusted_exception",
    ),
    "when gone through": (
        f"class S3cr3t(BaseException): ...\nclass Tools:\n    def __iter__(self):\n        raise S3cr3t({SECRET!r})\n"
        "TOOLS = Tools()",
        "untrusted_exception",
    ),
}


@pytest.mark.req("B134", "B152")
@pytest.mark.parametrize("kind", RAISING)
def test_whatever_the_tools_module_raises_is_told_by_its_safe_name_alone(project, kind: str) -> None:
    source, name = RAISING[kind]
    (project.folder / "tools.py").write_text(source + "\n")

    ran = project.run("tools", "list", "--json")
    warned = project.run("approvals", "list")

    assert (ran.code, ran.data["code"]) == (2, "tools_not_loaded")
    assert f"could not be imported: {name}" in ran.data["message"]
    for text in (ran.out, ran.err, warned.out, warned.err):
        assert "Traceback" not in text
        assert SECRET not in text
        assert "S3cr3t" not in text


def test_a_tool_that_cannot_be_is_told_with_its_place(project) -> None:
    source = "import placet\n\n\n@placet.tool(effect='maybe')\ndef look() -> str: ...\n\n\nTOOLS = [look]\n"
    (project.folder / "tools.py").write_text(source)

    ran = project.run("tools", "list", "--json")

    assert (ran.code, ran.data["hint"]) == (2, "Mend tools.py, line 4. PLACET_DEBUG=1 shows the traceback.")
    assert "effect" in ran.data["message"]


@pytest.mark.parametrize(
    ("tools", "code", "said"),
    [
        ("look", "tools_not_loaded", "tools:TOOLS is one tool, where a collection of them is meant."),
        ("[look, plain]", "contract_invalid", "Entry 2 of tools:TOOLS was not made with placet.tool."),
    ],
)
def test_what_is_no_collection_of_tools_is_told_as_that(project, tools: str, code: str, said: str) -> None:
    look = "@placet.tool(effect='read')\ndef look() -> str:\n    'Look.'\n    return ''\n"
    plain = "def plain() -> str: ..."
    (project.folder / "tools.py").write_text(f"import placet\n\n{look}\n{plain}\n\nTOOLS = {tools}\n")

    for words in (("tools", "list"), ("call", "--tool", "look")):
        ran = project.run(*words, "--json")
        assert (ran.code, ran.data["code"], ran.data["message"]) == (2, code, said)
        assert "TOOLS = [" in ran.data["hint"]


def test_a_name_that_the_module_does_not_have_is_named(project) -> None:
    project.rewrite('tools = "tools:', 'tools = "tools:MISSPELT_')

    ran = project.run("tools", "list", "--json")

    assert (ran.code, ran.data["code"]) == (2, "tools_not_loaded")
    assert "could not be imported: there is no MISSPELT_" in ran.data["message"]


@pytest.mark.parametrize("words", [("tools", "list"), ("call", "--tool", "put")])
def test_where_no_project_file_is_found_that_is_said(bare, words: tuple[str, ...]) -> None:
    ran = bare.run(*words, "--json")

    assert (ran.code, ran.data["code"], ran.data["hint"]) == (2, "config_invalid", "placet init")
    assert "there is no placet.toml in this folder or above it" in ran.data["message"]


def test_an_interrupt_during_the_import_is_an_interrupt(project) -> None:
    (project.folder / "tools.py").write_text("raise KeyboardInterrupt\n")

    assert project.run("tools", "list").code == 130
