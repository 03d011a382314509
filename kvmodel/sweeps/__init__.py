"""Many cases at once: inputs as text, rows computed together as arrays, a grid on any executor.

May import simulation, recovery and what they rest on. It never reads a file of cases nor writes one: that is `cli`.
"""
