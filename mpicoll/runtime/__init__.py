"""All that touches MPI and memory."""
