"""The verifier finds each kind of fault: a schedule that has it, and what must be said of it."""

from fractions import Fraction

import pytest

from mpicoll.schedule import IDLE, Recv, Round, Schedule, Send, find, verify
from mpicoll.schedule.cost import count


def made(programs, collective="allreduce", chunks=1, root=0):
    return Schedule(collective, "made", len(programs), chunks, lambda rank: programs[rank], root)


def local(*moves):
    """Local steps on rank 0: (from, to, whether it reduces)."""
    return Round([Send(0, [a]) for a, _, _ in moves], [Recv(0, [b], reduces) for _, b, reduces in moves])


def swap(rank, chunks=(0,), reduce=True):
    return Round([Send(rank ^ 1, list(chunks))], [Recv(rank ^ 1, list(chunks), reduce)])


def send(peer, *chunks):
    return Round([Send(peer, list(chunks))])


def take(peer, *chunks, reduce=False):
    return Round([], [Recv(peer, list(chunks), reduce)])


RING = find("allreduce", "ring").schedule(3).programs()
DOUBLING = find("allreduce", "recursive_doubling").schedule(4).programs()
DIRECT = find("allgather", "direct").schedule(3).programs()

FAULTS = {
    "a part is missing": (made([[IDLE], [IDLE]]), "rank 0, chunk 0: lacks the part of rank 1"),
    "a round is left out": (made([program[:1] for program in DOUBLING]), "lacks the part of rank 2, 3"),
    "a part comes twice": (made([[swap(0), swap(0)], [swap(1), swap(1)]]), "has the part of rank 0, 1 more than once"),
    "nobody sends": (made([[take(1, 0, reduce=True)], [IDLE]]), "deadlock in round 0: 0 waits for 1"),
    "nobody receives": (made([[send(1, 0)], [IDLE]]), "deadlock in round 0: 0 waits to send to 1"),
    "each waits for the other first": (
        made([[take(1, 0, reduce=True), send(1, 0)], [take(0, 0, reduce=True), send(0, 0)]]),
        "deadlock in round 0: 0 waits for 1; 1 waits for 0",
    ),
    "each sends first, and sends need their receives": (
        made([[send(1, 0), take(1, 0, reduce=True)], [send(0, 0), take(0, 0, reduce=True)]]),
        "deadlock in round 0: 0 waits to send to 1; 1 waits to send to 0",
    ),
    "a ring of waits": (
        made([[Round([Send((r + 1) % 3, [0])]), take((r - 1) % 3, 0, reduce=True)] for r in range(3)]),
        "deadlock in round 0",
    ),
    "rounds do not meet": (
        made([[send(1, 0), IDLE, take(1, 0)], [IDLE, take(0, 0, reduce=True), send(0, 0)]]),
        "0 -> 1: sent in round 0, received in round 1",
    ),
    "chunks in another order": (
        made([[swap(0, (0, 1))], [Round([Send(0, [0, 1])], [Recv(0, [1, 0], True)])]], chunks=2),
        "0 -> 1, round 0: chunks [0, 1] sent, [1, 0] received",
    ),
    "another number of chunks": (
        made([[send(1, 0, 1)], [take(0, 0, reduce=True)]], chunks=2),
        "0 -> 1, round 0: chunks [0, 1] sent, [0] received",
    ),
    "two messages of a pair change places": (
        made([[Round([Send(1, [0]), Send(1, [1])])], [Round([], [Recv(0, [1]), Recv(0, [0])])]], "reduce", 2, 1),
        "0 -> 1, round 0: chunks [0] sent, [1] received",
    ),
    "a copy overwrites what is sent": (
        made([[swap(0, reduce=False)], [swap(1, reduce=False)]]),
        "rank 0, round 0: chunk 0 is sent and overwritten by a copy",
    ),
    "a chunk is copied twice": (
        made([[send(2, 0)], [send(2, 0)], [Round([], [Recv(0, [0]), Recv(1, [0])])]]),
        "rank 2, round 0: chunk 0 comes twice",
    ),
    "a chunk is copied and reduced": (
        made([[send(2, 0)], [send(2, 0)], [Round([], [Recv(0, [0]), Recv(1, [0], True)])]]),
        "rank 2, round 0: chunk 0 is reduced with nothing of its own",
    ),
    "a reduction without an own part": (
        made([[send(1, 0)], [take(0, 0, reduce=True)]], "bcast"),
        "rank 1, round 0: chunk 0 is reduced with nothing of its own",
    ),
    "sent before it is there": (
        made([[take(1, 0)], [send(0, 0)]], "bcast"),
        "rank 1, round 0: sends chunk 0 before it is there",
    ),
    "sent in the round in which it comes": (
        made([[send(1, 0)], [Round([Send(2, [0])], [Recv(0, [0])])], [take(1, 0)]], "bcast"),
        "rank 1, round 0: sends chunk 0 before it is there",
    ),
    "a peer out of range": (made([[send(2, 0)], [IDLE]]), "no message can go between it and rank 2"),
    "a negative peer": (made([[take(-1, 0)], [IDLE]]), "no message can go between it and rank -1"),
    "a message to oneself beside others": (
        made([[swap(0)._replace(sends=[Send(0, [0])])], [swap(1)]]),
        "rank 0, round 0: local steps and messages in one round",
    ),
    "a message to oneself behind others": (
        made([[Round([Send(1, [0]), Send(0, [0])], [Recv(1, [0], True)])], [swap(1)]]),
        "no message can go between it and rank 0",
    ),
    "a message to oneself that nobody takes": (made([[send(0, 0)], [IDLE]]), "or one without its other end"),
    "a local step reads what another writes": (
        made([[local((0, 1, False), (1, 2, False))], [IDLE]]).but(slots=2),
        "rank 0, round 0: a local step reads what another one writes",
    ),
    "a local step reads an empty slot": (
        made([[local((1, 0, True))], [IDLE]]).but(slots=1),
        "rank 0, round 0: a local step reads chunk 1 before it is there",
    ),
    "a local step folds into an empty slot": (
        made([[local((0, 1, True))], [IDLE]]).but(slots=1),
        "rank 0, round 0: chunk 1 is reduced with nothing of its own",
    ),
    "a local step into another chunk": (
        made([[local((0, 1, False))], [IDLE]], chunks=2),
        "rank 0, round 0: local step from [0] to [1]",
    ),
    "a slot out of range": (made([[local((0, 2, False))], [IDLE]]).but(slots=1), "chunks [2] are not of 0..1"),
    "a chunk out of range": (made([[IDLE], [take(0, 1)]]), "chunks [1] are not of 0..0"),
    "a negative chunk": (made([[IDLE], [take(0, -1)]]), "chunks [-1] are not of 0..0"),
    "an empty message": (made([[Round([Send(1, [])])], [take(0)]]), "chunks [] are not of 0..0"),
    "programs of different length": (made([[swap(0)], [swap(1), IDLE]]), "programs differ in length: [1, 2]"),
    "a chunk ends at the wrong place": (
        made([[swap(0, (0,)), IDLE], [swap(1, (0,)), IDLE]], chunks=2),
        "rank 0, chunk 1: lacks the part of rank 1",
    ),
    "a chunk never comes": (made([[Round(DIRECT[0][0].sends)], *DIRECT[1:]], "allgather", 3), "deadlock"),
    "an output is missing": (made([[IDLE], [IDLE]], "allgather", 2), "rank 0, chunk 1: is missing"),
    "the root keeps it": (made([[IDLE], [IDLE]], "bcast"), "rank 1, chunk 0: is missing"),
    "the ring stops early": (made([program[:-1] for program in RING], chunks=3), "lacks the part of rank"),
}


@pytest.mark.parametrize(("schedule", "said"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_and_named(schedule, said):
    report = verify(schedule)
    assert not report.ok
    assert not report.identical
    assert said in "\n".join(report.errors)
    assert str(report).startswith(f"{schedule.collective} made on {schedule.size} ranks: ")


def test_the_same_made_right_passes():
    # The builders above make sound schedules too: what fails there fails for its fault.
    assert verify(made([[swap(0)], [swap(1)]])).ok
    assert verify(made([[send(1, 0), take(1, 0)], [take(0, 0, reduce=True), send(0, 0)]])).ok
    assert verify(made(RING, chunks=3)).ok


def test_complete_is_not_identical():
    programs = [
        [send(2, 0), swap(0)],
        [Round([Send(2, [0])], [Recv(2, [0], True)]), swap(1)],
        [Round([Send(1, [0])], [Recv(0, [0], True), Recv(1, [0], True)]), IDLE],
    ]
    report = verify(made(programs))  # (0, (1, 2)) on ranks 0 and 1, ((0, 1), 2) on rank 2
    assert report.ok
    assert report.in_order
    assert (report.identical, report.same_tree) == (False, False)


@pytest.mark.parametrize("program", range(4))
@pytest.mark.parametrize("at", range(2))
def test_each_message_of_recursive_doubling_is_needed(program, at):
    rounds = [list(rounds) for rounds in DOUBLING]
    rounds[program][at] = Round(rounds[program][at].sends, ())
    assert "deadlock" in "\n".join(verify(made(rounds)).errors)


def test_counts_below_the_bounds_are_impossible():
    counts = count(find("allreduce", "ring").schedule(4))
    assert counts.below_bounds() == []
    below = {"rounds": 1, "sent": Fraction(1, 2), "sent_total": Fraction(5), "reduced": Fraction(1, 2)}
    below["reduced_total"] = Fraction(2)
    for name, value in below.items():
        wrong = type(counts)(**{**vars(counts), name: value})
        assert [text.split(" is ")[0] for text in wrong.below_bounds()] == [name]


def test_ports_shorten_the_bound_on_rounds():
    counts = count(find("allreduce", "one_shot").schedule(9))
    assert (counts.ports, counts.rounds, counts.below_bounds()) == (8, 1, [])
    one_port = type(counts)(**{**vars(counts), "ports": 1})
    assert one_port.below_bounds() == ["rounds is 1, and less than 4 is impossible"]


def test_rounds_without_messages_cost_nothing():
    idle = made([[IDLE, swap(0), IDLE], [IDLE, swap(1), IDLE]])
    assert verify(idle).counts.rounds == 1


def test_bounds_enter_the_verdict(monkeypatch):
    from mpicoll.schedule import cost

    monkeypatch.setattr(cost.Counts, "below_bounds", lambda self: ["rounds is 0, and less than 1 is impossible"])
    report = verify(made([[swap(0)], [swap(1)]]))
    assert not report.ok
    assert "impossible" in str(report)
