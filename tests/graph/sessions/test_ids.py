"""Ids of a session's rows are distinct and sorted in write order."""

from uuid import UUID, uuid4

from contextrender_bridge.sessions.ids import branch_id, call_id, event_id

SESSION, OTHER = uuid4(), uuid4()
LARGEST = 2**24 - 1


def parts(session: UUID, branch: int) -> list[UUID]:
    """Return a branch's ids in the order in which a run writes them."""
    ids = [branch_id(session, branch)]
    for number in (0, 1, 255, 256, LARGEST):
        ids += [event_id(session, branch, number), call_id(session, branch, number)]
        ids.append(call_id(session, branch, number, is_second=True))
    return ids


def test_ids_are_sorted_in_write_order() -> None:
    ids = [id for branch in (0, 1, LARGEST) for id in parts(SESSION, branch)]
    assert ids == sorted(set(ids))
    assert {id.bytes[:9] for id in ids} == {SESSION.bytes[:9]}
    assert set(ids).isdisjoint(parts(OTHER, 0))


def test_ids_of_invalid_numbers_are_distinct() -> None:
    odd = [event_id(SESSION, 0, number) for number in (-1, LARGEST + 1, 2**80)]
    assert len({*odd, *parts(SESSION, 0)}) == len(odd) + len(parts(SESSION, 0))
