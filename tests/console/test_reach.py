"""What is counted of a call is in its arguments, and of redacted ones nothing is."""

from __future__ import annotations

from placet.console.reach import reach_of


def test_lists_are_counted_at_every_depth() -> None:
    found = reach_of(
        effect_class="write",
        resource=None,
        arguments={"to": ["a", "b"], "how": {"pages": [], "rows": [[1, 2, 3], {"x": [1]}]}, "n": 3},
        redacted=(),
    )

    assert found.counts == (("to", 2), ("how.pages", 0), ("how.rows", 2), ("how.rows[0]", 3), ("how.rows[1].x", 1))
    assert (found.is_final, found.target) == (False, None)


def test_of_what_is_redacted_nothing_is_counted() -> None:
    found = reach_of(
        effect_class="irreversible",
        resource="account:bob",
        arguments={"cards": ["1", "2"], "n": []},
        redacted=("cards",),
    )

    assert found.counts == (("n", 0),)
    assert (found.is_final, found.target) == (True, "account:bob")
