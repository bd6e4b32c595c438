"""The tournament: every pair once, and pairs that do not talk named, on real ranks."""

from __future__ import annotations

import pytest
from mpi4py import MPI

from mpicoll.doctor import talk

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 13, 64, 65])
def test_every_pair_meets_once_and_at_once(size):
    rounds = {rank: list(talk.opponents(rank, size)) for rank in range(size)}
    for rank, met in rounds.items():
        assert sorted(met) == [peer for peer in range(size) if peer != rank]
    if size % 2 == 0:  # nobody sits out: the two of a pair have each other in the same round
        assert all(rounds[peer][k] == rank for rank, met in rounds.items() for k, peer in enumerate(met))


def test_all_talk(comm):
    heard = talk.tournament(comm, 30)
    assert heard == talk.Heard([], [])
    told = talk.gather(comm, heard, 30)
    assert told == ([heard] * comm.size if comm.rank == 0 else [])
    assert talk.tell(comm, comm.rank, 30) == 0
    if comm.rank == 0:
        assert talk.complaints(told, ["a"] * comm.size) == []


class Lossy(MPI.Intracomm):
    """Loses what one rank sends to another."""

    def lose(self, source: int, target: int) -> Lossy:
        self.lost = (source, target)
        return self

    def Isend(self, buf, dest, tag=0):
        return MPI.REQUEST_NULL if (self.rank, dest) == self.lost else super().Isend(buf, dest, tag)


@pytest.mark.parametrize("comm", [2, 3, 5], indirect=True)
def test_a_lost_message_names_its_pair(comm):
    # As long as a rank may have to wait for a core: what is late is missing too.
    heard = talk.tournament(Lossy(comm).lose(0, 1), 5.0)
    assert heard.missing == ([0] if comm.rank == 1 else [])
    told = talk.gather(comm, heard, 30)
    if comm.rank == 0:
        said = talk.complaints(told, ["left", "right", *["more"] * comm.size][: comm.size])
        assert said == ["ranks 0 on left and 1 on right: nothing came through from 0 to 1"]
    # The receives of the lost message are still posted: nothing else may be sent on this communicator.


HEARD = talk.Heard([], [])


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        ([HEARD, None, HEARD], ["rank 1: no report came to rank 0"]),
        (
            [talk.Heard([2], []), talk.Heard([2], []), talk.Heard([0, 1, 3], []), talk.Heard([2], [])],
            ["rank 2 on h talks to no other rank"],
        ),
        (
            [talk.Heard([1], []), talk.Heard([0], [])],
            ["ranks 0 on h and 1 on h: nothing came through from 0 to 1 and 1 to 0"],
        ),
        ([HEARD, HEARD, talk.Heard([], [1])], ["ranks 1 on h and 2 on h: nothing came through from 2 to 1"]),
    ],
)
def test_complaints(heard, said):
    assert talk.complaints(heard, ["h" if one else "" for one in heard]) == said
