"""One self-contained HTML page of what runs say, and the same figures for papers."""
