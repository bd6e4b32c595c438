"""One module a kind of file. Each has ``read(source, asked)``, which gives what it found or raises ``RefusedError``."""
