"""Comparisons: the rows and variants of a table, their trials, running them, and the search for learning rates."""
