"""Results as strings with units, for pages and terminal.

May import everything that computes. It never computes a result, and no other package turns one into a table's cell.
"""
