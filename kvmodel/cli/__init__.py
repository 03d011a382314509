"""`python -m kvmodel`: flags, commands, tables of cases, sweeps.

May import everything. It never holds a formula: each command calls the function that has it.
"""
