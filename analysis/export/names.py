"""The libraries' names and numbers of their algorithms, and which of ours is the same for the model."""

from __future__ import annotations

import re

# Open MPI, coll/tuned: number -> name, by call. 0 is "decide as compiled in". What v6 adds stands apart.
OPENMPI: dict[str, dict[str, int]] = {
    "allreduce": {
        "basic_linear": 1, "nonoverlapping": 2, "recursive_doubling": 3, "ring": 4, "segmented_ring": 5,
        "rabenseifner": 6,
    },
    "allgather": {
        "linear": 1, "bruck": 2, "recursive_doubling": 3, "ring": 4, "neighbor": 5, "two_proc": 6, "sparbit": 7,
    },
    "reduce_scatter": {"non-overlapping": 1, "recursive_halving": 2, "ring": 3, "butterfly": 4},
    "reduce_scatter_block": {"basic_linear": 1, "recursive_doubling": 2, "recursive_halving": 3, "butterfly": 4},
    "reduce": {
        "linear": 1, "chain": 2, "pipeline": 3, "binary": 4, "binomial": 5, "in-order_binary": 6, "rabenseifner": 7,
    },
    "bcast": {
        "basic_linear": 1, "chain": 2, "pipeline": 3, "split_binary_tree": 4, "binary_tree": 5, "binomial": 6,
        "knomial": 7, "scatter_allgather": 8, "scatter_allgather_ring": 9,
    },
}  # fmt: skip
OPENMPI_4_LACKS = {("allgather", "sparbit")}
OPENMPI_6_ADDS = {"allreduce": {"allgather_reduce": 7}, "reduce": {"knomial": 8}}
OPENMPI_6_RENAMES = {("allgather", "bruck"): "bruck-k-fanout"}
OPENMPI_CALLS = {"allgather": 0, "bcast": 7, "reduce": 11, "allreduce": 2, "reduce_scatter": 12}
OPENMPI_CALLS |= {"reduce_scatter_block": 13}

# MPICH: the parameters that an algorithm must be given, or it runs with what lies in memory (a tree then ends the job
# with a division by zero), at their defaults.
MPICH: dict[str, dict[str, str]] = {
    "recursive_doubling": {},
    "recursive_multiplying": {"k": "2"},
    "reduce_scatter_allgather": {},
    "tree": {"tree_type": "knomial_1", "k": "2", "chunk_size": "0", "buffer_per_child": "0"},
    "recexch": {"k": "2", "single_phase_recv": "0"},
    "ring": {},
    "k_reduce_scatter_allgather": {"k": "2", "single_phase_recv": "0"},
}

INTEL = {
    "recursive doubling": 1, "rabenseifner": 2, "reduce + bcast": 3, "topology-aware reduce + bcast": 4,
    "binomial gather + scatter": 5, "topology-aware binomial gather + scatter": 6, "shumilin ring": 7, "ring": 8,
    "k-nomial": 9, "topology-aware SHM flat": 10, "topology-aware SHM k-nomial": 11, "topology-aware SHM k-nary": 12,
}  # fmt: skip

NCCL_ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
NCCL_PROTOCOLS = ("ll", "ll128", "simple")

# For the model: the library's algorithm -> ours with the same messages.
SAME: dict[str, dict[str, dict[str, str]]] = {
    "openmpi": {
        "allreduce": {
            "basic_linear": "linear", "recursive_doubling": "recursive_doubling", "ring": "ring",
            "rabenseifner": "rabenseifner",
        },
        "allgather": {"bruck": "bruck", "ring": "ring", "neighbor": "neighbor_exchange"},
        "reduce_scatter": {"recursive_halving": "recursive_halving", "ring": "ring"},
        "reduce": {"linear": "linear", "binomial": "binomial_tree", "in-order_binary": "binary_tree"},
        "bcast": {"basic_linear": "linear", "binomial": "binomial_tree", "binary_tree": "binary_tree"},
    },
    "mpich": {
        "allreduce": {
            "recursive_doubling": "recursive_doubling", "ring": "ring", "reduce_scatter_allgather": "rabenseifner",
            "tree": "binomial_tree",
        },
    },
    "intel": {
        "allreduce": {
            "recursive doubling": "recursive_doubling", "rabenseifner": "rabenseifner",
            "reduce + bcast": "binomial_tree", "ring": "ring",
        },
    },
    "nccl": {"allreduce": {"tree/simple": "double_tree", "ring/simple": "ring"}},
}  # fmt: skip


def resolve(text: str, known: dict[str, int]) -> str | None:
    """The known name that a run file means: the name itself, or its number with or without words ("2. Rabenseifner's").

    None: it is none of them. Libraries number differently, so words beside a number must agree with the name.
    """
    if text in known:
        return text
    number = re.match(r"(\d+)\b", text)
    if not number:
        return None
    words = re.sub(r"[^a-z]", "", text.lower())
    for name, value in known.items():
        said = [re.sub(r"[^a-z]", "", word) for word in re.split(r"[ _]", name.lower())]
        if value == int(number[1]) and (not words or any(word and word in words for word in said)):
            return name
    return None
