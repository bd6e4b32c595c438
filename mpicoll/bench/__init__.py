"""``python -m mpicoll.bench``: our algorithms beside the MPI library's, timed and checked in one run."""
