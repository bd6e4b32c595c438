"""From run files to answers: ``python -m analysis COMMAND RUNS…``. Runs from the clone; needs no MPI."""
