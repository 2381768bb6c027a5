"""The words of the demos are whole ones, as everywhere at the command line."""

from collections.abc import Callable

import pytest

from placet.demos.mcp import program as mcp
from placet.demos.ops import program as ops
from placet.demos.support import program as support


@pytest.mark.parametrize("main", [mcp.main, ops.main, support.main], ids=["mcp", "ops", "support"])
def test_a_shortened_option_is_refused_before_anything_begins(
    main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--yes", "mara", "--qui"])

    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "unrecognized arguments: --yes mara --qui" in said.err
