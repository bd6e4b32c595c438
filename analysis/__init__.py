"""From collected runs to parameters, forecasts and advice. Runs from the clone; imports no MPI."""
