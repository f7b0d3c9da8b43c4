"""The tables, the same in every database.

A node's edges are found by index. No node's row lists them, so a new edge changes no node's row.
Every key begins with the owner: the id of the root node of the user whose graph it is.
"""

import re
from typing import Final

VERSION: Final = 12
"""The version of these tables and of the nodes' fields. The program refuses other versions."""

TABLES: Final = """
CREATE TABLE IF NOT EXISTS meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS kinds (
    number {serial},
    module TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (module, name)
);
CREATE TABLE IF NOT EXISTS nodes (
    owner {uuid} NOT NULL,
    id {uuid} NOT NULL,
    rev {integer} NOT NULL,
    kind {small} NOT NULL,
    listed {real},
    data {bytes} NOT NULL,
    PRIMARY KEY (owner, id)
){partition};
CREATE INDEX IF NOT EXISTS nodes_listed ON nodes (owner, kind, listed, id) WHERE listed IS NOT NULL;
CREATE TABLE IF NOT EXISTS edges (
    owner {uuid} NOT NULL,
    source {uuid} NOT NULL,
    kind {small} NOT NULL,
    target {uuid} NOT NULL,
    data {bytes},
    PRIMARY KEY (owner, source, kind, target)
){without_rowid}{partition};
CREATE INDEX IF NOT EXISTS edges_target ON edges (owner, target);
CREATE TABLE IF NOT EXISTS quarantine (
    id TEXT PRIMARY KEY,
    owner {uuid} NOT NULL,
    rev {integer} NOT NULL,
    kind {small} NOT NULL,
    listed {real},
    data {bytes} NOT NULL,
    error TEXT NOT NULL,
    quarantined_at TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS identity_users (
    user_id TEXT PRIMARY KEY,
    status TEXT,
    identities JSON,
    credentials JSON,
    root_id TEXT,
    role TEXT,
    requires_password_reset INTEGER,
    profile JSON,
    created_at TEXT,
    updated_at TEXT
);
CREATE TABLE IF NOT EXISTS identity_lookups (
    value_normalized TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES identity_users (user_id) ON DELETE CASCADE
);
CREATE TABLE IF NOT EXISTS sso_lookups (
    provider TEXT NOT NULL,
    external_id TEXT NOT NULL,
    user_id TEXT NOT NULL REFERENCES identity_users (user_id) ON DELETE CASCADE,
    PRIMARY KEY (provider, external_id)
);
"""
"""The statements that create the tables. Names in braces stand for a database's own types.

`listed` is the number that orders nodes of a kind in lists; NULL in nodes that are not listed. The
last three tables have the accounts in jac-scale's format.
"""


def columns() -> dict[str, list[str]]:
    """Return the column names of each table, in order, by the table's name. `TABLES` has them."""
    tables = re.findall(r"CREATE TABLE IF NOT EXISTS (\w+) \((.*?)\n\)", TABLES, re.DOTALL)
    return {name: re.findall(r"^    ([a-z_]+) ", body, re.MULTILINE) for name, body in tables}


def statements(script: str, **types: str) -> list[str]:
    """Return the statements of a script, in which `types` replace the names in braces."""
    return [text.strip() for text in script.format(**types).split(";") if text.strip()]
