"""What a page shows: each section draws one part of one, with the shell of `explorer` around it.

May import the shell and kvmodel. It never computes: it asks the model and draws what it says.
"""
