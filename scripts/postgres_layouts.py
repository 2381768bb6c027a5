"""Write `layouts.json` of the PostgreSQL store: what each version's migrations make, digested.

python scripts/postgres_layouts.py --write     after a migration was added or changed
python scripts/postgres_layouts.py             says whether it is needed
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import asyncpg

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from placet.adapters.stores.postgres.examining import EXAMINING  # noqa: E402
from placet.adapters.stores.postgres.layout import Parts, parts_of  # noqa: E402
from placet.adapters.stores.postgres.statements import migrations  # noqa: E402
from tests.postgres.server import Server, binaries  # noqa: E402

FILE = ROOT / "src" / "placet" / "adapters" / "stores" / "postgres" / "layouts.json"


async def layouts(url: str, *, schema: str = "placet") -> dict[str, Parts]:
    """What the migrations up to each version make in an empty schema, which is dropped again."""
    found: dict[str, Parts] = {}
    connection = await asyncpg.connect(url, server_settings={"search_path": f'"{schema}", pg_temp'})
    try:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f'CREATE SCHEMA "{schema}"')
        for number, text in migrations():
            await connection.execute(text)
            rows = [tuple(row) for row in await connection.fetch(EXAMINING["layout"], schema)]
            found[str(number)] = {name: digest for name, (digest, _) in sorted(parts_of(rows, schema=schema).items())}
        await transaction.rollback()
    finally:
        await connection.close()
    return found


def main() -> int:
    server = Server(next(iter(binaries().values())))
    try:
        text = json.dumps(asyncio.run(layouts(server.url())), indent=0) + "\n"
    finally:
        server.remove()
    if sys.argv[1:] == ["--write"]:
        FILE.write_text(text, "utf-8")
        return 0
    is_fresh = FILE.read_text("utf-8") == text
    print("as the migrations make it" if is_fresh else "not as the migrations make it: run with --write")
    return 0 if is_fresh else 1


if __name__ == "__main__":
    raise SystemExit(main())
