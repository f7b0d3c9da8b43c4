"""Accounts fail as the store does."""

from typing import Any

import pytest

from graph.runtime.identities import Identities, NameTaken
from graph.store.base import Store


def user(id: str) -> dict[str, Any]:
    name = {"type": "username", "value_raw": "Alice", "value_normalized": "alice"}
    return {"user_id": id, "identities": [name], "root_id": id}


def test_of_two_who_take_a_name_at_once_one_is_told(store: Store) -> None:
    users = Identities(store)
    users._store_user(user("one"))
    with pytest.raises(NameTaken):
        users._store_user(user("other"))
    assert store.read("SELECT user_id FROM identity_users") == [("one",)]
