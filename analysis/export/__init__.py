"""Advice in the libraries' own tuning files: one module a grammar, each with a writer and a strict reader."""
