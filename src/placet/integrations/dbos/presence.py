"""Which executors are alive, by their own word in DBOS's database; and whose runs are to be taken over.

DBOS goes on with what an executor left when one of the same name starts again, and not before. So every executor has a
row that it renews. Whoever finds one that was not renewed in time takes over what that executor left; only one does.
Being wrong is harmless: the other finds the lease of a run taken, and the ledger answers what was done.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from placet.errors import ConfigurationError

_TABLE = sa.Table(
    "placet_executors",
    sa.MetaData(),
    sa.Column("executor", sa.Text, primary_key=True),
    sa.Column("token", sa.Text, nullable=False),
    sa.Column(
        "seen_at", sa.Float, nullable=False, comment="seconds since 1970, by the database's clock; 0 of one that left"
    ),
)


class ExecutorTaken(ConfigurationError):
    """Another process works under this executor's name, and both would do the same steps."""

    code = "executor_taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """An executor that was not heard of in time, as its row was found."""

    executor: str
    token: str
    seen_at: float


class Presence:
    """The rows of one database. Its methods block; call them in a thread.

    Args:
        dead_after_seconds: how long one that does not renew its row is still taken for alive.
    """

    def __init__(self, url: str, *, executor: str, token: str, dead_after_seconds: float) -> None:
        self._engine = sa.create_engine(url, poolclass=NullPool)
        self._executor = executor
        self._token = token
        self._dead_after_seconds = dead_after_seconds
        is_sqlite = self._engine.dialect.name == "sqlite"
        self._now = (
            sa.literal_column("(julianday('now') - 2440587.5) * 86400.0", sa.Float)
            if is_sqlite
            else sa.literal_column("extract(epoch from clock_timestamp())", sa.Float)
        )

    def prepare(self) -> None:
        """Make the table, if it is not there."""
        _TABLE.create(self._engine, checkfirst=True)

    def takes_name(self) -> bool:
        """Whether the executor's name is this process's from now on; False while another lives that has it."""
        is_free = (_TABLE.c.executor == self._executor) & (_TABLE.c.seen_at < self._dead_line())
        values = {"executor": self._executor, "token": self._token, "seen_at": self._now}
        try:
            with self._engine.begin() as connection:
                connection.execute(sa.delete(_TABLE).where(is_free))
                connection.execute(sa.insert(_TABLE).values(values))
        except sa.exc.IntegrityError:
            return False
        return True

    def renew(self) -> bool:
        """Whether this process is still the executor of its name."""
        with self._engine.begin() as connection:
            mine = (_TABLE.c.executor == self._executor) & (_TABLE.c.token == self._token)
            return connection.execute(sa.update(_TABLE).where(mine).values(seen_at=self._now)).rowcount == 1

    def leave(self) -> None:
        """What it had not finished may be taken over at once."""
        with self._engine.begin() as connection:
            mine = (_TABLE.c.executor == self._executor) & (_TABLE.c.token == self._token)
            connection.execute(sa.update(_TABLE).where(mine).values(seen_at=0.0))

    def lost(self) -> tuple[Lost, ...]:
        """Who else is dead, or has left, and was not taken over yet."""
        with self._engine.begin() as connection:
            found = connection.execute(
                sa.select(_TABLE.c.executor, _TABLE.c.token, _TABLE.c.seen_at)
                .where(_TABLE.c.seen_at < self._dead_line(), _TABLE.c.token != self._token)
                .order_by(_TABLE.c.executor)
            ).all()
        return tuple(Lost(executor=row.executor, token=row.token, seen_at=row.seen_at) for row in found)

    def takes_over(self, lost: Lost) -> bool:
        """Whether it is this process that takes over; should it die over it, somebody else will in due time."""
        with self._engine.begin() as connection:
            changed = connection.execute(
                sa.update(_TABLE).where(*_same(lost), _TABLE.c.seen_at == lost.seen_at).values(seen_at=self._now)
            )
            return changed.rowcount == 1

    def forget(self, lost: Lost) -> None:
        """It has been taken over."""
        with self._engine.begin() as connection:
            connection.execute(sa.delete(_TABLE).where(*_same(lost)))

    def close(self) -> None:
        self._engine.dispose()

    def _dead_line(self) -> sa.ColumnElement[float]:
        return self._now - self._dead_after_seconds


def _same(lost: Lost) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    return _TABLE.c.executor == lost.executor, _TABLE.c.token == lost.token
