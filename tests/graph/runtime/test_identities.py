"""Accounts fail as the store does."""

from typing import Any

import pytest

from graph.runtime.identities import Identities, NameTaken
from graph.store.base import Store
from graph.store.writes import StoreUnavailable


def user(id: str) -> dict[str, Any]:
    name = {"type": "username", "value_raw": "Alice", "value_normalized": "alice"}
    return {"user_id": id, "identities": [name], "root_id": id}


def test_of_two_who_take_a_name_at_once_one_is_told(store: Store) -> None:
    users = Identities(store)
    users._store_user(user("one"))
    with pytest.raises(NameTaken):
        users._store_user(user("other"))
    assert store.read("SELECT user_id FROM identity_users") == [("one",)]


def test_what_the_database_refuses_is_the_stores_own_error(store: Store) -> None:
    with store.transaction() as cursor:
        cursor.execute("DROP TABLE identity_lookups")
    with pytest.raises(StoreUnavailable):
        Identities(store).find_user_by_identity("alice")
